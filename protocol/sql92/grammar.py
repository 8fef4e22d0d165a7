"""Parse tokens into a term, without recursion, so that parentheses may be nested deeply. RocketMQ: SelectorParser.jj.

    condition   = and-row { OR and-row }
    and-row     = equality { AND equality }
    equality    = comparison { = comparison | <> comparison | IS [NOT] NULL }
    comparison  = operand { > operand | >= operand | < operand | <= operand
                          | [NOT] CONTAINS text | [NOT] STARTSWITH text | [NOT] ENDSWITH text
                          | [NOT] BETWEEN operand AND operand | [NOT] IN ( text { , text } ) }
    operand     = [ + | - | NOT ] operand | text | number | TRUE | FALSE | NULL | name | ( condition )

So NOT binds tighter than any comparison: `NOT a = 'x'` is `(NOT a) = 'x'`. Text after the first complete condition is
ignored, except for its first token, which must be a valid one.

This is an operator-precedence parser: operators that wait for their right operand are on a stack. Terms are made in the
same order as in RocketMQ, so of several errors, the same one is reported.

Different from RocketMQ: after a unary plus, RocketMQ looks ahead without making terms, and reports every error at the
plus.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from staticfire.protocol.sql92 import terms
from staticfire.protocol.sql92.faults import FilterExpressionError, unexpected
from staticfire.protocol.sql92.terms import Term
from staticfire.protocol.sql92.tokens import DECIMAL, FLOAT, KEYWORDS, NAME, STRING, Token, Tokens

_NOT, _AND, _OR, _IS, _NULL = (KEYWORDS[word] for word in ("NOT", "AND", "OR", "IS", "NULL"))
_BETWEEN, _IN = KEYWORDS["BETWEEN"], KEYWORDS["IN"]
_TRUTHS = {KEYWORDS["TRUE"]: True, KEYWORDS["FALSE"]: False, _NULL: None}
_TEXT_TESTS = {KEYWORDS[word]: word for word in ("CONTAINS", "STARTSWITH", "ENDSWITH")}
_EQUALITIES = {'"="': "=", '"<>"': "<>"}
_ORDERS = {'">"': ">", '">="': ">=", '"<"': "<", '"<="': "<="}
_OPEN, _CLOSE, _COMMA, _PLUS, _MINUS = '"("', '")"', '","', '"+"', '"-"'

# The expected tokens in error messages, in the order of JavaCC's numbers.
_OPERANDS = (_NOT, *_TRUTHS, DECIMAL, FLOAT, STRING, NAME, _OPEN, _MINUS, _PLUS)
_AFTER_NOT = (_BETWEEN, _IN, *_TEXT_TESTS, *_ORDERS)
_AFTER_CONDITION = (_NOT, _AND, _OR, _BETWEEN, _IN, _IS, *_TEXT_TESTS, *_EQUALITIES, *_ORDERS, _CLOSE)
_AFTER_NULL_TEST = (_AND, _OR, _IS, *_EQUALITIES, _CLOSE)

# How tightly a waiting operator binds.
_IN_PARENTHESES, _IN_OR, _IN_AND, _IN_EQUALITY, _IN_COMPARISON, _IN_BETWEEN, _IN_PREFIX = range(7)


class _Unfinished(msgspec.Struct):
    """An operator that waits for the term after it."""

    level: int
    finish: Callable[..., Term]


class Parser:
    """Parses one condition."""

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._waiting: list[_Unfinished] = []
        # Whether the last term was IS [NOT] NULL. No comparison can follow it.
        self._is_null_test = False

    def parse(self) -> Term:
        """Parse and return the condition. Raises: FilterExpressionError."""
        while True:
            term: Term | None = self._operand()
            while term is not None:
                term = self._bind(term)
                term = term and self._compare(term)
                term = term and self._join(term)
                if term is not None:
                    if not self._waiting:
                        return terms.as_boolean(term)
                    self._expect(_CLOSE, _AFTER_NULL_TEST if self._is_null_test else _AFTER_CONDITION)
                    self._waiting.pop()
                    self._is_null_test = False

    # -- operands ----------------------------------------------------------------------------------------------------

    def _operand(self) -> Term:
        """Return a leaf; signs and parentheses before it are put on the stack."""
        self._is_null_test = False
        while True:
            token = self._tokens.peek()
            if token.kind == _NOT:
                self._wait(_IN_PREFIX, terms.inverted)
            elif token.kind == _MINUS:
                self._wait(_IN_PREFIX, terms.minus)
            elif token.kind == _OPEN:
                self._wait(_IN_PARENTHESES, terms.as_boolean)
            elif token.kind != _PLUS:
                return self._leaf(token)
            self._tokens.take()

    def _leaf(self, token: Token) -> Term:
        kind, image = token.kind, token.image
        if kind not in _OPERANDS:
            raise self._unexpected(token, _OPERANDS)
        self._tokens.take()
        if kind == STRING:
            return terms.text_constant(_unquoted(image))
        if kind == DECIMAL:
            return terms.whole_constant(image)
        if kind == FLOAT:
            return terms.double_constant(image)
        return terms.property_term(image) if kind == NAME else terms.truth(_TRUTHS[kind])

    # -- operators after a term, the tightest first. Each method returns None if an operand must follow --------------

    def _bind(self, term: Term) -> Term | None:
        """Complete the signs and comparisons that waited for the term."""
        while self._waiting and self._waiting[-1].level >= _IN_COMPARISON:
            unfinished = self._waiting.pop()
            if unfinished.level == _IN_BETWEEN:
                self._expect(_AND, (_AND,))
                self._wait(_IN_COMPARISON, partial(unfinished.finish, term))
                return None
            term = unfinished.finish(term)
        return term

    def _compare(self, term: Term) -> Term | None:
        """Read the comparisons after a term."""
        while not self._is_null_test:
            token = self._tokens.peek()
            negated = token.kind == _NOT
            word = self._tokens.peek(1) if negated else token
            if token.kind in _ORDERS:
                self._go_on(_IN_COMPARISON, partial(terms.compared, _ORDERS[token.kind], term))
                return None
            if negated and word.kind not in (_BETWEEN, _IN, *_TEXT_TESTS):
                raise self._unexpected(token, _AFTER_NOT)
            if word.kind == _BETWEEN:
                if negated:
                    self._tokens.take()
                self._go_on(_IN_BETWEEN, partial(terms.not_between if negated else terms.between, term))
                return None
            if word.kind == _IN:
                term = terms.in_list(term, self._listed(negated), negated)
            elif word.kind in _TEXT_TESTS:
                term = terms.text_test(_TEXT_TESTS[word.kind], term, self._text_behind(negated), negated)
            else:
                break
        return term

    def _join(self, term: Term) -> Term | None:
        """Read equalities, null tests, AND and OR after a term."""
        while True:
            term = self._finish(_IN_EQUALITY, term)
            token = self._tokens.peek()
            if token.kind in _EQUALITIES:
                self._go_on(_IN_EQUALITY, partial(terms.equal, _EQUALITIES[token.kind], term))
                return None
            if token.kind != _IS:
                break
            term = self._null_test(term)
        for level, kind, word in ((_IN_AND, _AND, "AND"), (_IN_OR, _OR, "OR")):
            term = self._finish(level, term)
            if self._tokens.peek().kind == kind:
                self._go_on(level, partial(terms.joined, word, term))
                return None
        return term

    # -- steps -------------------------------------------------------------------------------------------------------

    def _finish(self, level: int, term: Term) -> Term:
        if self._waiting and self._waiting[-1].level == level:
            return self._waiting.pop().finish(term)
        return term

    def _go_on(self, level: int, finish: Callable[..., Term]) -> None:
        """Take an operator. The term on its right will complete it."""
        self._tokens.take()
        self._wait(level, finish)

    def _wait(self, level: int, finish: Callable[..., Term]) -> None:
        self._waiting.append(_Unfinished(level, finish))

    def _null_test(self, term: Term) -> Term:
        self._tokens.take()
        self._is_null_test = True
        token = self._tokens.peek()
        if token.kind == _NULL:
            self._tokens.take()
            return terms.is_null(term, negated=False)
        self._expect(_NOT, (_NOT, _NULL))
        self._expect(_NULL, (_NULL,))
        return terms.is_null(term, negated=True)

    def _text_behind(self, negated: bool) -> str:
        if negated:
            self._tokens.take()
        self._tokens.take()
        return _unquoted(self._expect(STRING, (STRING,)).image)

    def _listed(self, negated: bool) -> list[str]:
        if negated:
            self._tokens.take()
        self._tokens.take()
        self._expect(_OPEN, (_OPEN,))
        texts = [_unquoted(self._expect(STRING, (STRING,)).image)]
        while self._tokens.peek().kind == _COMMA:
            self._tokens.take()
            texts.append(_unquoted(self._expect(STRING, (STRING,)).image))
        self._expect(_CLOSE, (_COMMA, _CLOSE))
        return texts

    def _expect(self, kind: str, expected: tuple[str, ...]) -> Token:
        token = self._tokens.peek()
        if token.kind != kind:
            raise self._unexpected(token, expected)
        return self._tokens.take()

    def _unexpected(self, token: Token, expected: tuple[str, ...]) -> FilterExpressionError:
        return unexpected(token.kind, token.image, self._tokens.place(token), expected)


def _unquoted(image: str) -> str:
    return image[1:-1].replace("''", "'")
