"""Right and wrong answers for lesson 15: the two accounts, with a model trained on first use."""

from exercises.shared.runs import made
from whywrong.hosting import catalogue

COURSE = catalogue()


def run(**entries):
    """A right account of a run, with some entries changed."""
    return made(
        COURSE.find("my_run").reference | {n.replace("_", " "): v for n, v in entries.items()}
    )


def head(**entries):
    """A right account of a head, with some entries changed."""
    exercise = COURSE.find("my_head")
    return exercise.made(exercise.reference | {n.replace("_", " "): v for n, v in entries.items()})


def without(answer, *names):
    return {name: value for name, value in answer.items() if name not in names}


RUN, HEAD = run(), head()
LEARNED = "what it learned"

MY_RUN_RIGHT = {
    "the example": RUN,
    "sizes as a tuple": run(sizes=(6, 16, 2, 8, 1)),
    "predicted 1,000,000 parameters": run(predicted_parameters=1_000_000),
    "predicted in bits": run(predicted_first_loss=2.58),
    "predicted a loss of 10": run(predicted_first_loss=10),
    "more than was asked": RUN | {"losses": [1.9, 1.2], "notes": "went well"},
    "in Chinese": RUN | {LEARNED: "它会重复前面的字母。"},
}

MY_RUN_WRONG = {
    "invented numbers": (0, RUN | {"model": 3_584, "losses": [1.8, 1.6, 1.4, 1.2]}),
    "predictions still open": (0.25, run(predicted_parameters=..., predicted_first_loss=None)),
    "the class for the model": (0, RUN | {"model": type(RUN["model"])}),
    "half a head": (0.25, run(sizes=[6, 16, 2.5, 8, 1])),
    "one text for both": (0.25, RUN | {"held-out text": RUN["training text"]}),
    "the text as a string": (0, RUN | {"training text": "abcabc"}),
    "a text of other ids": (0, RUN | {"held-out text": RUN["held-out text"] + 3}),
    "nothing said": (0.25, RUN | {LEARNED: ""}),
    "an entry's name mistyped": (
        0,
        without(RUN, "held-out text") | {"held out": RUN["held-out text"]},
    ),
}

MY_HEAD_RIGHT = {
    "the letter before": HEAD,
    "as predicted": head(predicted_change=0.08, why=""),
    "the other head": head(head=0),
    "predicted nothing": head(predicted_change=0),
    "predicted a fall": head(predicted_change=-0.5),
    "in Chinese": head(name="看前一个字母", why="其他的头也看前一个字母，所以损失只增加一点。"),
    "why is the stream": head(why="The stream brings the same."),
}

MY_HEAD_WRONG = {
    "differs, and why is open": (0.25, head(why=...)),
    "a prediction in words": (0.25, head(predicted_change="a little")),
    "invented numbers": (
        0,
        without(HEAD, "run") | {"score": 0.61, "loss": 1.61, "measured change": 0.1},
    ),
    "a run of numbers": (0, HEAD | {"run": {"model": 3, "sizes": [6, 16, 2, 8, 1]}}),
    "counted from 1": (0.25, head(layer=1)),
    "not this head's job": (0.25, head(job="two before")),
}

RIGHT = {"my_run": MY_RUN_RIGHT, "my_head": MY_HEAD_RIGHT}
WRONG = {"my_run": MY_RUN_WRONG, "my_head": MY_HEAD_WRONG}
