"""Conditions in SQL92, and messages to hold them against: a table that is the same in every run.

`messages` are the property strings of one queue. `conditions` are written by hand, made by combination, made at random,
and spoilt. What RocketMQ says of each pair stands in tests/protocol/golden/sql92.json, which
`python -m tests.oracle.conditions NAMESRV_ADDR` writes.
"""

import json
import sys
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from tests.oracle.exchange import Side
from tests.oracle.normal import normal

RECORDED = Path(__file__).parent.parent / "protocol" / "golden" / "sql92.json"
SEED = 92

_VALUES = (
    "3", "03", "-3", "+3", "3.5", " 3", "3L", "1e3", "0x10", "2147483647", "2147483648", "9223372036854775808", "NaN",
    "Infinity", "-0.0", "1_000", "\u0663", "true", "TRUE", "yes", "x", "axb", "it's", "\u00fc", "\U0001f680",
)  # fmt: skip
PAIRS = (("3", "3"), ("3", "4"), ("3.5", "3"), ("x", "x"), ("0.0", "-0.0"), ("NaN", "NaN"))


def messages() -> list[str]:
    """Return the property strings, of 32 messages."""
    of_one = [f"a\x01{value}\x02" for value in _VALUES]
    of_two = [f"a\x01{first}\x02b\x01{second}\x02" for first, second in PAIRS]
    return [*of_one, *of_two, "b\x013\x02TAGS\x01a\x02"]


_WRITTEN = """
    a b a_b $a _a A TAGS UNIQ_KEY TRUE FALSE NULL true False nULL 3 'x' 3.5 -3 (a) ((a)) (TRUE) (3 NOT
    |NOT a|NOT b|NOT (NOT b)|NOT NOT b|NOT TRUE|NOT NULL|NOT 3|NOT 'x'|NOT a = 'x'|NOT (a = 'x')|NOT a IS NULL
    |NOT (a > 3)|a IS NULL|a IS NOT NULL|b IS NULL|b IS NOT NULL|c IS NULL|c IS NOT NULL|TRUE IS NULL|NULL IS NULL
    |NULL IS NOT NULL|3 IS NULL|'x' IS NOT NULL|-a IS NULL|a IS NULL IS NULL|a IS NULL = TRUE|a IS NULL > 3
    |(a = 3) IS NULL|a IS|a IS NOT|a IS 3|a IS NOT 3|IS NULL|a IS NULL b|(a IS NULL b)|(a IS NULL AND b|a = b|a <> b
    |b = a|a > b|a >= b|a < b|a <= b|c = d|c <> d|c > d|a = c|c = a|a = NULL|NULL = a|NULL = NULL|a <> NULL|a > NULL
    |a = = b|a == b|a != b|a <> = b|a =|= a|a = b = c|a = 'x' = TRUE|(a = 'x') = 'true'|(a = 'x') = b|b = (a = 3)
    |(a = 3) = (b = 3)|(a = 3) <> (b = 3)|(a > 3) = TRUE|(a > 3) = FALSE|(a > 3) = 1|1 = (a > 3)|TRUE = TRUE
    |TRUE = 1|TRUE = 'x'|'x' = TRUE|1 = TRUE|FALSE <> TRUE|3 = 3|3 = 4|3 = 3.0|3 = 3L|3 = 2147483648|'3' = 3|3 = '3'
    |'x' = 'x'|3.5 = '3.5'|'x' > 'y'|'x' > 3|3 > 'x'|3 > 2|3 > 2.5|2147483648 > 3|3.5 > TRUE|a > TRUE|a > (b = 3)
    |a > (b)|a > (3)|a > 3 > 2|-a > 3|a > -3|a > - 3|a > -3.5|a > +3|a > + + 3|a > -(-3)|a > - - 3|a > -'x'|-'x' = a
    |- TRUE = a|+a = 3|+TRUE|-TRUE|+ +|+ 3|+ (a = 3)|+ NOT a|- NOT a|-(a > 3) IS NULL|a > 3 AND b > 3
    |a > 3 OR b = '3'|b = '3' OR a > 3|a > 3 AND b = 'zz'|b = 'zz' AND a > 3|c AND d|c OR d|a OR b|a AND b
    |TRUE AND NULL|FALSE AND NULL|TRUE OR NULL|FALSE OR NULL|NULL AND NULL|NULL OR TRUE|NULL AND FALSE
    |NOT (NULL AND TRUE)|c = 'x' OR b = '3'|c = 'x' AND b = '3'|NOT (c = 'x') OR b = '3'
    |a = '3' AND b = '3' OR a = 'x'|a = 'x' OR a = '3' AND c|a AND|AND a|a OR|OR a|a AND OR b|a AND 3|3 OR a
    |'x' AND a|a OR -b|a AND (b OR|a OR b AND c OR d|a BETWEEN 1 AND 3|a BETWEEN 3 AND 1|a BETWEEN 1 AND 3.5
    |a BETWEEN 1.5 AND 2147483648|a BETWEEN -3 AND 3|a BETWEEN 3 AND -3|a BETWEEN b AND 4|a BETWEEN 1 AND b
    |a BETWEEN b AND b|a BETWEEN 'a' AND 'b'|a BETWEEN 'b' AND 'a'|a BETWEEN NULL AND 3|a BETWEEN 3 AND NULL
    |a BETWEEN 1 AND TRUE|a BETWEEN TRUE AND FALSE|a BETWEEN FALSE AND TRUE|a BETWEEN 'x' AND 3|a BETWEEN 3 AND 'x'
    |a BETWEEN '1' AND 3|a BETWEEN 1 AND '3'|a BETWEEN '' AND 1.5|a BETWEEN 1|a BETWEEN 1 AND|a BETWEEN 1 OR 3
    |a BETWEEN 1 AND 3 AND b = 3|a BETWEEN (1) AND (3)|3 BETWEEN a AND b|a NOT BETWEEN 1 AND 3|a NOT BETWEEN 3 AND 1
    |a NOT BETWEEN b AND 3|c NOT BETWEEN 1 AND 3|NOT a BETWEEN 1 AND 3|NOT (a BETWEEN 1 AND 3)
    |a BETWEEN 1 AND 3 BETWEEN 1 AND 3|a BETWEEN 1 AND 2 > 3|a BETWEEN 3.5 AND 3|a BETWEEN 2L AND 3|a IN ('3')
    |a IN ('3', 'x')|a NOT IN ('3', 'x')|c IN ('3')|c NOT IN ('3')|NOT a IN ('3')|NOT (a IN ('3'))|3 IN ('3')
    |'x' IN ('x')|(a) IN ('3')|-a IN ('3')|(a = 3) IN ('3')|a IN ()|a IN (3)|a IN ('3'|a IN ('3',)|a IN '3'|a IN (b)
    |a IN ('1','2','3','4','5','3')|a NOT IN ('1','2','3','4','5')|(a IN ('x', 'y')) > 3|(a NOT IN ('x')) > 3
    |a IN ('3') b|a IN ('3') = TRUE|a IN|a NOT IN|a NOT IN (|a NOT|a NOT 3|a NOT AND|a NOT NOT IN ('3')|a NOT NULL
    |a CONTAINS 'x'|a NOT CONTAINS 'x'|a CONTAINS ''|a NOT CONTAINS ''|c CONTAINS 'x'|c NOT CONTAINS 'x'
    |a CONTAINS b|a CONTAINS 3|a STARTSWITH 'a'|a NOT STARTSWITH 'a'|a ENDSWITH 'b'|a NOT ENDSWITH 'b'
    |c NOT STARTSWITH 'a'|a contains 'x'|'axb' CONTAINS 'x'|'axb' NOT CONTAINS 'x'|3 CONTAINS '3'
    |TRUE NOT CONTAINS 'x'|(a = 3) CONTAINS 'x'|-a CONTAINS 'x'|a CONTAINS 'x' CONTAINS 'y'|(a CONTAINS 'x') > 3
    |(a NOT ENDSWITH 'x') > 3|a STARTSWITH|a NOT ENDSWITH 3|a CONTAINS ''''|a = 'it''s'|a = 'it\\'s'|a = ''|a = ''''
    |a = '|a = 'x|a = 'x''|'|a = "x"|a = \u00fc|a = '\u00fc'|a = '\U0001f680'|a = \U0001f680|a CONTAINS '\u00fc'
    |a = '\u0663'|a = 3 \u00fc|\u00fc = 3|a = 'x' \U0001f680|a\t=\t3|\ta = = 3|a\n=\r\n= 3|a = \r= 3|\r\n\n\r  = 3
    |a = 3 -- all|-- none\na = 3|--none|a = -- none\n3|a = -- 3|a --\r\n= 3|/* none */ a = 3|a /* = */ = /***/ 3
    |a = /* 3|a = /* 3 */|/**/|/|a /|a / b|a = 3 /|a = 3 / b|(a = 3 / b)|a = 3 !|(a = 3 !)|!a|! a|#|.|a .|a = .5
    |a = 5.|a = .5.|a = ..5|a = 5.e1|a = 5e1|a = 5e|a = 5e+1|a = 1.5E-3|a = 1e400|a = 1e-400|a = 0.0|a = 0|a = 00
    |a = 03|a = 0L|a = 3l|a = 3LL|a = 0x10|a = 1_000|a = 9223372036854775807|a = 9223372036854775808
    |a > -9223372036854775808|a = 99999999999999999999999999|a = 2147483648|a = -2147483648|a > 3.14|a > 1.0e10
    |3.5 IN ('x')|1e7 IN ('x')|1.0e-3 IN ('x')|0.00012345 IN ('x')|1234567.875 IN ('x')|12345678.5 IN ('x')
    |1e100 IN ('x')|100.0 IN ('x')|-3.5 IN ('x')|NULL IN ('x')|TRUE IN ('x')|2147483648 IN ('x')|'it''s' IN ('x')
    |(a > 3) IN ('x')|(NOT a) IN ('x')|(a OR b) IN ('x')|(a AND b OR c AND d) IN ('x')|(a IS NOT NULL) IN ('x')
    |(a <> 3) IN ('x')|(a BETWEEN 1 AND 3) IN ('x')|(a NOT BETWEEN 1 AND 3) IN ('x')|(- - a) IN ('x')
    |(a AND (b AND c) AND d) IN ('x')|a LIKE 'x'|a + 1 = 4|a * 2 = 6|a ESCAPE 'x'|a = 3; b|a.b = 3|a-b = 3|1a = 3
    |a b c|a = 3 b = 4|(a = 3) b = 4|(a = 3|(a = 3 b)|a = 3)|()|(|)|((a = 3)|(a = 3))
    |((a > 3 AND b < 4) OR (NOT (c = 'x') AND b IS NOT NULL))|,|a,b|=|<>|'|''|NOT (a = 3 AND b = 4)
    |NOT (a = 3 OR b = 4)|NOT (c = 3)|NOT (c = d)|NOT (a = c)|NOT (c = a)|NOT (c > 3)|NOT (c = d) OR TRUE
    |not a is null|A = '3'|a = '3' and B = '3'|Between = 3|a = between|null = 3|a is null or A is null|WAIT = 'x'
    |KEYS IS NULL
"""

_OPERANDS = ("a", "b", "3", "-3", "3.5", "2147483648", "'3'", "'x'", "TRUE", "NULL", "(a = 3)", "-b")
_OPERATORS = ("=", "<>", ">", ">=", "<", "<=")


def conditions() -> list[str]:
    """Return the conditions, each once."""
    random = Random(SEED)
    lines = _WRITTEN.strip("\n").replace("\n    |", "|").split("|")
    written = [*lines[0].split(), *lines[1:], ""]
    made = [f"{left} {operator} {right}" for left, operator, right in product(_OPERANDS, _OPERATORS, _OPERANDS)]
    nested = [_nested(random, 3) for _ in range(400)]
    spoilt = [_spoilt(random, text) for text in nested[:300]]
    return list(dict.fromkeys([*written, *made, *nested, *spoilt]))


def _nested(random: Random, depth: int) -> str:
    """Return a random condition."""
    if depth and random.random() < 0.6:
        left, right = _nested(random, depth - 1), _nested(random, depth - 1)
        return random.choice([f"({left}) AND ({right})", f"{left} OR {right}", f"{left} AND {right}", f"NOT ({left})"])
    name, number = random.choice("abc"), random.choice(["3", "-3", "3.5", "1e3", "2147483648", "0"])
    tests = [
        f"{name} {random.choice(_OPERATORS)} {number}",
        f"{name} {random.choice(_OPERATORS[:2])} '{random.choice(['3', 'x', 'true'])}'",
        f"{name} IS {random.choice(['', 'NOT '])}NULL",
        f"{name} {random.choice(['', 'NOT '])}IN ('3', 'x')",
        f"{name} {random.choice(['', 'NOT '])}BETWEEN {random.choice(['0', 'b', '-3'])} AND 4",
        f"{name} {random.choice(['CONTAINS', 'STARTSWITH', 'NOT ENDSWITH'])} '{random.choice('3xb')}'",
        f"{name} = {random.choice(['TRUE', 'b', 'c'])}",
    ]
    return random.choice(tests)


def _spoilt(random: Random, text: str) -> str:
    """Return a condition with a word too few, too many, or in the wrong place."""
    words = text.replace("(", " ( ").replace(")", " ) ").split()
    at = random.randrange(len(words))
    pieces = [
        "(",
        ")",
        "AND",
        "NOT",
        "=",
        ",",
        "3",
        "'x'",
        "IS",
        "BETWEEN",
        "a",
        "/",
        "!",
        "'",
        "-",
        "IN",
        "\n",
        "1.",
        ".",
    ]
    words[at : at + random.choice([0, 1, 2])] = [random.choice(pieces)] if random.random() < 0.8 else []
    return random.choice([" ", "  ", "\t"]).join(words)


def recorded() -> dict[str, list[int] | str]:
    """Return what RocketMQ said: the messages that each condition wants, or what is wrong with it."""
    said: dict[str, list[int] | str] = json.loads(RECORDED.read_text())
    return said


def record(nameserver: str, broker: str) -> dict[str, Any]:
    """Return what a cluster says: of each condition the offsets that it wants, or what is wrong with it."""
    from tests.oracle.cases.conditions import check, choose, prepare

    texts = conditions()
    requested = [ask(text) for text in texts for ask in (check, choose)]
    replies = Side(nameserver, broker, "recorded-").play([*prepare(), *requested])
    said: dict[str, Any] = {}
    for text in texts:
        checked = replies[f"check {text!r}"]
        if checked.code == 0:
            rows = normal(replies[f"choose {text!r}"])["body"] or []
            said[text] = [row["queue"][1] for row in rows]
        else:
            said[text] = checked.remark
    return said


def main(nameserver: str) -> None:
    from tests.oracle.__main__ import broker_of

    said = record(nameserver, broker_of(nameserver))
    rows = ",\n".join(f"{json.dumps(text)}: {json.dumps(outcome)}" for text, outcome in said.items())
    RECORDED.write_text(f"{{\n{rows}\n}}\n")
    faults = sum(not isinstance(outcome, list) for outcome in said.values())
    print(f"{len(said)} conditions, {faults} of them faulty, {len(messages())} messages: {RECORDED}")


if __name__ == "__main__":
    main(sys.argv[1])
