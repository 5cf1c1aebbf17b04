"""Lesson 12: three families of transformers: who may look where, and a word that is blanked out.

French articles agree with a noun that stands *behind* them: "la petite souris", "le petit chat".
Whoever fills in a blanked-out article must look to the right.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import MultiHeadAttention, causal_mask
from ..threads import use_threads
from ..toy_french import ARTICLES, EOS_ID, PAD_ID, draw_pairs, french
from ..transformer import EncoderBlock, TokenAndPosition
from ..translation import pad

WIDTH, HEADS, LONGEST = 32, 4, 13
ARTICLE_IDS = {  # of each gender
    gender: [int(french.encode(forms[gender])) for forms in ARTICLES.values()] for gender in "mf"
}


def masks(S: int, T: int) -> Tensor:
    """What is hidden from whom in each family, `(3, S + T, S + T)`: in an encoder nothing, in a
    decoder the future, and in an encoder-decoder, of whose tokens the first S are the source, what
    is written: from the source all of it, from the target the future."""
    both = causal_mask(S + T)
    both[:S, :S] = False
    return torch.stack([torch.zeros_like(both), causal_mask(S + T), both])


class LooksBack(MultiHeadAttention):
    """Causal attention, called as the attention of an encoder is."""

    def forward(self, x: Tensor, context: Tensor, pad_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, pad_mask)


class Filler(nn.Module):
    """Says for each token of a text which word stands there, one block deep.

    Args:
        causal: whether a token sees only those before it. Nothing else differs.
    """

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.embed = TokenAndPosition(len(french.vocabulary), LONGEST, WIDTH)
        self.block = EncoderBlock(WIDTH, HEADS, d_ff=4 * WIDTH)
        if causal:
            self.block.attention = LooksBack(WIDTH, WIDTH, LONGEST, HEADS)  # type: ignore[assignment]
        self.head = nn.Linear(WIDTH, len(french.vocabulary), bias=False)

    def forward(self, ids: Tensor, pad_mask: Tensor) -> Tensor:
        return self.head(self.block(self.embed(ids), pad_mask))  # (B, T) -> (B, T, V)


def blanked(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """French sentences whose first word, an article, is blanked out.

    Returns:
        `(B, T)` ids, in which eos is the blank; `(B, T)`, the padding; `(B,)`, the articles.
    """
    forms = {form for forms in ARTICLES.values() for form in forms.values()}
    pairs = [p for p in draw_pairs(2 * count, seed) if p.french.split()[0] in forms]
    ids, pad_mask = pad([french.encode(pair.french) for pair in pairs[:count]], PAD_ID)
    articles = ids[:, 0].clone()
    ids[:, 0] = EOS_ID
    return ids, pad_mask, articles


def train_filler(causal: bool, steps: int = 120, seed: int = 0) -> Filler:
    """Train a model to say which article was blanked out."""
    ids, pad_mask, articles = blanked(steps * 32, seed=1)
    with use_threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Filler(causal)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for batch in torch.arange(steps * 32).split(32):
            logits = model(ids[batch], pad_mask[batch])[:, 0]  # (B, T, V) -> (B, V)
            loss = F.cross_entropy(logits, articles[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def right_gender(model: Filler) -> float:
    """How often the likelier gender of the article is the right one, in unseen sentences."""
    ids, pad_mask, articles = blanked(400, seed=2)
    shares = model(ids, pad_mask)[:, 0].softmax(dim=-1)  # (B, V)
    feminine = shares[:, ARTICLE_IDS["f"]].sum(-1) > shares[:, ARTICLE_IDS["m"]].sum(-1)
    wanted = torch.isin(articles, torch.tensor(ARTICLE_IDS["f"]))
    return (feminine == wanted).double().mean().item()


@torch.no_grad()
def article_shares(model: Filler, text: str) -> Tensor:
    """`(2,)`: how likely a masculine and a feminine article is before a French text."""
    ids = torch.cat([torch.tensor([EOS_ID]), french.encode(text)])[None]
    shares = model(ids, torch.zeros_like(ids, dtype=torch.bool))[0, 0].softmax(dim=-1)  # (V,)
    return torch.stack([shares[ARTICLE_IDS[gender]].sum() for gender in "mf"])
