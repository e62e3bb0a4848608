"""Values that somebody may pass by mistake, by a name for each."""

import math


class Odd:
    """As an array may be: it has no truth, no equality that is one, no hash; and here no text either."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("the truth value of an array is ambiguous")

    def __bool__(self):
        raise ValueError("the truth value of an array is ambiguous")

    def __repr__(self):
        raise RuntimeError("no text")


VALUES = {
    "None": None,
    "a text": "x",
    "no text": "",
    "bytes": b"x",
    "a fraction": 1.5,
    "minus one": -1,
    "zero": 0,
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a vast number": 1e300,
    "True": True,
    "an empty list": [],
    "an empty dict": {},
    "a list of a number": [1],
    "a list of None": [None],
    "a tuple of a fraction": (1.5,),
    "a list of a list": [[]],
    "a dict of a number": {"A": 1},
    "a dict by number": {1: "A"},
    "a set": {1},
    "an object": object(),
    "a class": int,
    "a function": lambda: 1,
    "an integer that is no float": 10**400,
    "an integer without a text": -(10**5000),
    "a text with NUL": "a\0b",
    "half a pair": "a\ud800b",
    "a list with NUL": ["a\0b"],
    "a dict with NUL": {"A": "a\0b"},
    "an odd object": Odd(),
    "a list of an odd object": [Odd()],
}
