"""What goes wrong with a whole language model: its parts made, listed and called in a row.

As in `mistakes.py`: one idea, one id, one set of sentences.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ... import transformer
from ...checking import Mistake

FLOAT32_WORDS = {
    "what": "The result is float32 whatever the weights are.",
    "mend": "Tensor operations keep the dtype by themselves. Is there a `.float()`, or a tensor "
    "that you make?",
}


class NormNotUsed(Mistake):
    """The last norm is made and never called.

    Why: The stream grows from block to block, and with it the logits, as deep as the model is.
    Mend: Between the last block and `head`, who brings each token to one size?
    """

    def read(self, x):
        return self.head(x)


class NormNotMade(Mistake):
    """There is no last norm.

    Why: The stream grows from block to block, and with it the logits, as deep as the model is.
    Mend: `self.norm = transformer.LayerNorm(d_model)`, between the last block and `head`.
    """

    def last_norm(self, d_model):
        return None

    def read(self, x):
        return self.head(x)


class NormOfPyTorch(Mistake):
    """The last norm is PyTorch's own, which calls its parameters `weight` and `bias`.

    Why: Weights of a model are loaded by name.
    Mend: The course's `transformer.LayerNorm` has `scale` and `shift`.
    """

    def last_norm(self, d_model):
        return nn.LayerNorm(d_model)


class NormBeforeTheBlocks(Mistake):
    """The norm stands before the blocks, not after them.

    Why: What the blocks add is left as large as it comes, and `head` gets it so.
    Mend: Pre-LN leaves the end of the stream without a norm: that is where this one belongs.
    """

    def through(self, x):
        return super().through(self.norm(x))

    def read(self, x):
        return self.head(x)


class NormAfterEachBlock(Mistake):
    """The last norm is called after each block.

    Why: The free way from input to output is gone, and all places share one scale.
    Mend: Once, after the loop: look at the indentation.
    """

    def passed(self, block, x):
        return self.norm(block(x))

    def read(self, x):
        return self.head(x)


class HeadWithBias(Mistake):
    """`head` has a bias.

    Why: Weights of a model that has none don't say what it should be.
    Mend: `bias=False`.
    """

    def last_layer(self, d_model, vocab_size):
        return nn.Linear(d_model, vocab_size)


class HeadTied(Mistake):
    """`head` uses the weight of the token embedding.

    Why: GPT-2 does; here they are two tables, so whoever sets one would change the other.
    Mend: Leave out the line that assigns one weight to the other.
    """

    def last_layer(self, d_model, vocab_size):
        head = super().last_layer(d_model, vocab_size)
        head.weight = self.embed.token.weight
        return head


class OneBlockForAll(Mistake):
    """All layers are one and the same block: `[block] * n` repeats it.

    Why: The model learns as much as one layer can hold, however many there are.
    Mend: Make a new block for each layer: `TransformerBlock(…) for _ in range(num_layers)`.
    """

    def listed(self, blocks):
        return nn.ModuleList([blocks[0]] * len(blocks))


class FirstBlockOnly(Mistake):
    """Only one of the blocks is used.

    Why: The others never learn.
    Mend: What does the loop call, and with what?
    """

    def through(self, x):
        return self.blocks[0](x)


class EachBlockFromTheStart(Mistake):
    """Each block gets the embedding, and only the last one's result counts.

    Why: The others never learn; the model is one layer deep.
    Mend: `x = block(x)`: the next block goes on where the last one ended.
    """

    def through(self, x):
        for block in self.blocks:
            out = block(x)
        return out


class LastBlockLeftOut(Mistake):
    """The last block is never called.

    Why: It never learns, and the model is one layer less deep.
    Mend: How often does your loop run?
    """

    def through(self, x):
        for block in self.blocks[:-1]:
            x = block(x)
        return x


class BlocksInReverse(Mistake):
    """The blocks are called from the last to the first.

    Why: Weights of a trained model belong to places.
    Mend: `for block in self.blocks` goes from the first to the last.
    """

    def through(self, x):
        for block in reversed(self.blocks):
            x = block(x)
        return x


class AddedAgain(Mistake):
    """What goes into a block is added to what comes out of it.

    Why: A block has its residuals inside; added again, the stream doubles with every layer.
    Mend: `x = block(x)`.
    """

    def passed(self, block, x):
        return x + block(x)


class BlocksInAPlainList(Mistake):
    """The blocks sit in a plain Python list.

    Why: PyTorch doesn't see into it: no optimizer, no `.to(device)` and no saving finds them.
    Mend: `nn.ModuleList` is a list that PyTorch sees into.
    """

    def listed(self, blocks):
        return list(blocks)


class AllInOneSequential(Mistake):
    """All parts sit in one `nn.Sequential`, where their names are numbers.

    Why: Weights are loaded by name: `embed`, `blocks`, `norm`, `head`.
    Mend: Give each part a name of its own; only the blocks are a list.
    """

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.model = nn.Sequential(self.embed, *self.blocks, self.norm, self.head)
        del self.embed, self.blocks, self.norm, self.head

    def forward(self, ids):
        return self.model(self.accepted(ids))


class EmbeddingWithoutPositions(Mistake):
    """`embed` is a table of tokens alone; there are no positions.

    Why: Attention takes the tokens up to here as a set: in which order they came is lost.
    Mend: `transformer.TokenAndPosition` holds both tables.
    """

    def __init__(self, vocab_size, d_model, *args, **named):
        super().__init__(vocab_size, d_model, *args, **named)
        self.embed = nn.Embedding(vocab_size, d_model)


class PositionsNotAdded(Mistake):
    """Only the token table is read; positions are made and never added.

    Why: Attention takes the tokens up to here as a set: in which order they came is lost.
    Mend: Call `self.embed(ids)`; it adds them itself.
    """

    def embedded(self, ids):
        return self.embed.token(ids)


class PositionsAddedTwice(Mistake):
    """Positions are added twice: `embed` does it already.

    Why: Where a token stands then drowns what it says.
    Mend: `self.embed(ids)` is all.
    """

    def embedded(self, ids):
        return self.embed(ids) + self.embed.position.weight[: ids.shape[1]]


class EmbeddingScaled(Mistake):
    """The embedding was multiplied by the root of the width.

    Why: The first transformer did; GPT-2 and this model don't.
    Mend: `x = self.embed(ids)`, as it comes.
    """

    def embedded(self, ids):
        return self.embed(ids) * self.embed.token.embedding_dim**0.5


class EmbeddingArgumentsSwapped(Mistake):
    """`TokenAndPosition` got its sizes in another order.

    Why: Its tables have other shapes than the model needs.
    Mend: `TokenAndPosition(vocab_size, context_length, d_model)`.
    """

    def __init__(self, vocab_size, d_model, num_heads, context_length, *args, **named):
        super().__init__(vocab_size, d_model, num_heads, context_length, *args, **named)
        self.embed = transformer.TokenAndPosition(vocab_size, d_model, context_length)


class DropoutForgotten(Mistake):
    """`dropout` never reaches the blocks.

    Why: The model trains without it, whatever the caller asked for.
    Mend: Pass it on to each `TransformerBlock`.
    """

    def rate(self, dropout):
        return 0.0


class DropoutFixedInBlocks(Mistake):
    """The blocks have a dropout of their own, whatever the caller asks for.

    Why: With `dropout=0.0` training should be as exact as evaluation.
    Mend: Pass the constructor's argument on.
    """

    def rate(self, dropout):
        return 0.1


class DropoutOutside(Mistake):
    """Something is dropped outside the blocks, too.

    Why: Each block drops its own; what `head` gives are the logits, and they are wanted whole.
    Mend: `dropout` goes to the blocks, and nowhere else.
    """

    def rate(self, dropout):
        self.p = dropout
        return dropout

    def result(self, logits):
        return F.dropout(logits, self.p, self.training)


class LengthAndLayersSwapped(Mistake):
    """The constructor takes `num_layers` before `context_length`.

    Why: Whoever passes them by position gets another model, or none.
    Mend: Compare the order with the one that was given: …, context_length, num_layers, dropout.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, context_length, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers, dropout)


class ContextLengthNotKept(Mistake):
    """The model has no `context_length`.

    Why: Whoever generates text must know how much of it the model can see.
    Mend: `self.context_length = context_length`.
    """

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.limit = self.context_length
        del self.context_length

    def accepted(self, ids):
        if ids.shape[1] > self.limit:
            self.complain(ids.shape[1], self.limit)
        return ids


class LongTextTail(Mistake):
    """Of a text that is too long the last tokens were taken, without a word.

    Why: The caller gets logits for fewer tokens than they gave.
    Mend: Refuse it: raise a ValueError with both numbers. Cropping is what `generate` does.
    """

    def accepted(self, ids):
        return ids[:, -self.context_length :]


class ProbabilitiesReturned(Mistake):
    """Probabilities are returned: there is a softmax at the end.

    Why: `cross_entropy` takes the softmax itself, and twice is nearly flat.
    Mend: Logits are asked: what `head` gives.
    """

    def result(self, logits):
        return torch.softmax(logits, dim=-1)


class LogsReturned(Mistake):
    """The logs of probabilities are returned: there is a log-softmax at the end.

    Why: The loss wouldn't notice, but these are not the logits of the model that was asked for.
    Mend: Logits are asked: what `head` gives.
    """

    def result(self, logits):
        return torch.log_softmax(logits, dim=-1)


class LastLogitsOnly(Mistake):
    """Only the logits of the last token are returned.

    Why: In training every position foretells its next token.
    Mend: `(B, T, V)` is asked.
    """

    def result(self, logits):
        return logits[:, -1]


class StreamReturned(Mistake):
    """What the last norm gives is returned; `head` is never called.

    Why: Numbers of width C are no scores of words.
    Mend: One layer is left: from `d_model` to `vocab_size`.
    """

    def read(self, x):
        return self.norm(x)
