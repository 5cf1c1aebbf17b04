"""Right and wrong answers for lesson 11: the decoder block."""

import torch
from torch import nn

from course_utils import transformer as course
from course_utils.attention import CrossAttention, MultiHeadAttention


class Writes(nn.Module):
    """A decoder block, in steps that the others replace."""

    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__()
        self.self_attention = self.looking_back(d_model, num_heads, context_length, dropout)
        self.norm1 = course.LayerNorm(d_model)
        self.cross_attention = CrossAttention(d_model, num_heads, dropout)
        self.norm2 = course.LayerNorm(d_model)
        self.feed_forward = course.ReLUFeedForward(d_model, d_ff, dropout)
        self.norm3 = course.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def looking_back(self, d_model, num_heads, context_length, dropout):
        return MultiHeadAttention(d_model, d_model, context_length, num_heads, dropout)

    def listen(self, x, pad_mask):
        return self.dropout(self.self_attention(x, pad_mask))

    def ask(self, x, context, mask):
        return self.dropout(self.cross_attention(x, context, mask))

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        x = self.norm1(x + self.listen(x, pad_mask))
        x = self.norm2(x + self.ask(x, context, context_pad_mask))
        return self.norm3(x + self.feed_forward(x))


class WritesByLoop(Writes):
    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        steps = [
            (self.norm1, lambda x: self.listen(x, pad_mask)),
            (self.norm2, lambda x: self.ask(x, context=context, mask=context_pad_mask)),
            (self.norm3, self.feed_forward),
        ]
        for norm, branch in steps:
            x = norm(x + branch(x))
        return x


class WritesWithTriangle(Writes):
    """Self-attention has a triangle of its own, and -1e9 instead of -inf."""

    class Back(CrossAttention):
        def forward(self, x, pad_mask=None):
            heads = (self.num_heads, -1)
            q, k, v = (f(x).unflatten(-1, heads).transpose(1, 2) for f in self.sides())
            hidden = torch.ones(q.shape[2], q.shape[2], device=x.device).triu(1).bool()
            if pad_mask is not None:
                hidden = hidden | pad_mask[:, None, None]
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -1e9)
            weights = self.dropout(scores.softmax(-1) * ~hidden)
            return self.out_proj((weights @ v).transpose(1, 2).flatten(2))

        def sides(self):
            return self.query, self.key, self.value

    def looking_back(self, d_model, num_heads, context_length, dropout):
        return self.Back(d_model, num_heads, dropout)


class WritesWithThreeDropouts(Writes):
    """A dropout of its own for each branch; PyTorch's place in the middle as well."""

    def __init__(self, d_model, num_heads, d_ff, context_length, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, context_length, dropout)
        self.drops = nn.ModuleList(nn.Dropout(dropout) for _ in range(2))

    def ask(self, x, context, mask):
        return self.drops[0](self.cross_attention(x, context, mask))

    def forward(self, x, context, pad_mask=None, context_pad_mask=None):
        found = self.norm1(x + self.listen(x, pad_mask))
        told = self.norm2(found + self.ask(found, context, context_pad_mask))
        ff = self.feed_forward
        thought = ff.dropout(ff.contract(self.drops[1](ff.expand(told).clamp(min=0))))
        return self.norm3(told + thought)


RIGHT = {
    "DecoderBlock": {
        "plain": Writes,
        "in a loop": WritesByLoop,
        "a triangle of its own": WritesWithTriangle,
        "three dropouts": WritesWithThreeDropouts,
    },
}


WRONG = {}
