"""Lesson 12: the masks of three families of transformers, and the prediction of a masked word.

French articles agree with the noun *after* them: "la petite souris", "le petit chat". A model that
fills in a masked article must attend to the tokens after it.
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
ARTICLE_IDS = {  # the articles of each gender
    gender: [int(french.encode(forms[gender])) for forms in ARTICLES.values()] for gender in "mf"
}


def masks(S: int, T: int) -> Tensor:
    """The mask of each family, `(3, S + T, S + T)`. An encoder hides nothing; a decoder hides the
    future. In an encoder–decoder, the first S tokens are the source; the mask hides the target from
    the source, and later target tokens from earlier ones."""
    both = causal_mask(S + T)
    both[:S, :S] = False
    return torch.stack([torch.zeros_like(both), causal_mask(S + T), both])


class LooksBack(MultiHeadAttention):
    """Causal attention with the interface of an encoder's attention."""

    def forward(self, x: Tensor, context: Tensor, pad_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, pad_mask)


class Filler(nn.Module):
    """A model that predicts the word at each position of a text, with one block, causal or not."""

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
    """French sentences whose first word, an article, is replaced by eos. Returns ids `(B, T)`,
    their padding mask `(B, T)`, and the ids of the articles `(B,)`."""
    texts = [french.encode(pair.french) for pair in draw_pairs(2 * count, seed)]
    articles = [*ARTICLE_IDS["m"], *ARTICLE_IDS["f"]]
    ids, pad_mask = pad([text for text in texts if text[0] in articles][:count], PAD_ID)
    first = ids[:, 0].clone()
    ids[:, 0] = EOS_ID
    return ids, pad_mask, first


def train_filler(causal: bool, steps: int = 120, seed: int = 0) -> Filler:
    """Train a model to predict the masked article."""
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
def _genders(model: Filler, ids: Tensor, pad_mask: Tensor) -> Tensor:
    """The probabilities of a masculine and a feminine first article, `(2, B)`."""
    shares = model(ids, pad_mask)[:, 0].softmax(dim=-1)  # (B, V)
    return torch.stack([shares[:, ARTICLE_IDS[gender]].sum(dim=-1) for gender in "mf"])


def right_gender(model: Filler) -> float:
    """The fraction of unseen sentences for which the more likely gender is right."""
    ids, pad_mask, articles = blanked(400, seed=2)
    masculine, feminine = _genders(model, ids, pad_mask)
    wanted = torch.isin(articles, torch.tensor(ARTICLE_IDS["f"]))
    return ((feminine > masculine) == wanted).double().mean().item()


def article_shares(model: Filler, text: str) -> Tensor:
    """The probabilities of a masculine and a feminine article before a French text, `(2,)`."""
    ids = torch.cat([torch.tensor([EOS_ID]), french.encode(text)])[None]
    return _genders(model, ids, torch.zeros_like(ids, dtype=torch.bool))[:, 0]
