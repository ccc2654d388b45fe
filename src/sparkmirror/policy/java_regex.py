# SPDX-License-Identifier: Apache-2.0
r"""Java regular expressions as Python ones.

Python's `re` supports most of Java's syntax. This module rewrites what differs: quotations
`\Q..\E`, named groups, POSIX classes `\p{Alpha}`, nested classes with union and intersection,
flags inside the pattern, strict braces. Raises ValueError for what has no equivalent.
"""

from __future__ import annotations

import re
from string import ascii_letters, hexdigits

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_HORIZONTAL = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0b\f\r\x85\u2028\u2029"
# Escapes for a set of characters: (content of a class, negated).
_SETS = {
    "d": (r"\d", False),
    "D": (r"\d", True),
    "w": (r"\w", False),
    "W": (r"\w", True),
    "s": (r"\s", False),
    "S": (r"\s", True),
    "h": (_HORIZONTAL, False),
    "H": (_HORIZONTAL, True),
    "v": (_VERTICAL, False),
    "V": (_VERTICAL, True),
}
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_ASSERTIONS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)"}
_QUANTIFIER = re.compile(r"\{[0-9]+(,[0-9]*)?\}")
_GROUP_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_NAME = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")


def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile a Java pattern. Raises ValueError with the reason."""
    try:
        return re.compile(_Translator(pattern).run(), re.ASCII)
    except (re.error, OverflowError) as error:  # also a{99999999999}
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


class _Translator:
    """One pass over a pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        # Per open group: the flags set inside it, as the openings of scoped groups. Java's `(?i)`
        # applies to the end of the enclosing group, across alternatives.
        self._scopes: list[list[str]] = [[]]

    def run(self) -> str:
        out: list[str] = []
        while self._at < len(self._pattern):
            out.append(self._next())
        if len(self._scopes) > 1:
            raise ValueError("a group is not closed")
        return "".join(out) + ")" * len(self._scopes[0])

    def _next(self) -> str:  # noqa: PLR0911 - a list of cases
        char = self._take()
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._character_class()
        if char == "(":
            return self._group()
        if char == ")":
            return self._close()
        if char == "|":
            flags = self._scopes[-1]
            return ")" * len(flags) + "|" + "".join(flags)
        if char == "{":
            return self._braces()
        return char

    def _take(self, count: int = 1) -> str:
        taken = self._pattern[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("the pattern is incomplete")
        self._at += count
        return taken

    def _follows(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        return expression.match(self._pattern, self._at)

    def _braces(self) -> str:
        self._at -= 1
        match = self._match(_QUANTIFIER)
        if match is None:
            raise ValueError("'{' must be written \\{ unless it is a count such as {2,3}")
        return self._take(len(match[0]))

    def _close(self) -> str:
        if len(self._scopes) == 1:
            raise ValueError("there is an unmatched ')'")
        return ")" * (len(self._scopes.pop()) + 1)

    def _group(self) -> str:
        if not self._follows("?"):
            self._scopes.append([])
            return "("
        if self._follows("?<") and not self._follows("?<=") and not self._follows("?<!"):
            self._take(1)
            name = self._match(_NAME)
            if name is None:
                raise ValueError("a group name must consist of letters and digits")
            self._take(len(name[0]))
            self._scopes.append([])
            return f"(?P<{name[1]}>"
        flags = self._match(_GROUP_FLAGS)
        if flags is not None and flags[0] != "?:":
            return self._flags(flags)
        for opening in ("?:", "?=", "?!", "?>", "?<=", "?<!"):
            if self._follows(opening):
                self._take(len(opening))
                self._scopes.append([])
                return "(" + opening
        raise ValueError("unknown group type after '(?'")

    def _flags(self, match: re.Match[str]) -> str:
        self._take(len(match[0]))
        # d only changes what counts as a line end; names contain none.
        on, off = (match[1] or "").replace("d", ""), (match[2] or "").replace("d", "")
        wrong = set(on + off) - set("ims")
        if wrong:
            raise ValueError(f"the flag {min(wrong)!r} of '({match[0]}' is not supported")
        opening = f"(?{on}-{off}:" if off else f"(?{on}:"
        if match[3] == ":":
            self._scopes.append([])
            return opening
        self._scopes[-1].append(opening)
        return opening

    def _escape(self) -> str:
        if self._follows("Q"):
            return "".join(re.escape(char) for char in self._quotation())
        if self._pattern[self._at : self._at + 1] in _ASSERTIONS and not self._follows("b{"):
            return _ASSERTIONS[self._take()]
        if self._follows("R"):
            self._take()
            return rf"(?:\r\n|[{_VERTICAL}])"
        if self._follows("k"):
            self._take()
            name = self._match(_NAME)
            if name is None:
                raise ValueError("\\k must be followed by <name>")
            self._take(len(name[0]))
            return f"(?P={name[1]})"
        if self._pattern[self._at : self._at + 1] in tuple("123456789"):
            return f"(?:\\{self._take()})"  # a digit that follows is not part of the number
        content, negated = self._one_escape()
        return f"[^{content}]" if negated else f"[{content}]"

    def _quotation(self) -> str:
        r"""Read the text between \Q and \E (or the end)."""
        self._take()
        end = self._pattern.find("\\E", self._at)
        if end < 0:
            return self._take(len(self._pattern) - self._at)
        quoted = self._take(end - self._at)
        self._take(2)
        return quoted

    def _one_escape(self) -> tuple[str, bool]:  # noqa: PLR0911 - a list of cases
        """Return an escape's content inside a class, and whether it is negated."""
        char = self._take()
        if char in _SETS:
            return _SETS[char]
        if char in "pP":
            return self._property(), char == "P"
        if char in _CHARACTERS:
            return _in_class(_CHARACTERS[char]), False
        if char == "x":
            return _in_class(self._hexadecimal()), False
        if char == "u":
            return _in_class(_code_point(self._take(4))), False
        if char == "0":
            return _in_class(self._octal()), False
        if char == "c":
            return _in_class(chr(ord(self._take()) ^ 64)), False
        if char in ascii_letters:
            raise ValueError(f"the escape \\{char} is not supported")
        return _in_class(char), False

    def _property(self) -> str:
        if not self._follows("{"):
            raise ValueError("\\p must be followed by a class such as {Alpha}")
        end = self._pattern.find("}", self._at)
        name = self._take(end + 1 - self._at)[1:-1] if end > 0 else ""
        if name not in _POSIX:
            raise ValueError(f"\\p{{{name}}} is not supported; supported are {', '.join(_POSIX)}")
        return _POSIX[name]

    def _hexadecimal(self) -> str:
        if not self._follows("{"):
            return _code_point(self._take(2))
        end = self._pattern.find("}", self._at)
        if end < 0:
            raise ValueError("\\x{ is not closed")
        return _code_point(self._take(end + 1 - self._at)[1:-1])

    def _octal(self) -> str:
        digits = re.compile(r"[0-3]?[0-7]{1,2}").match(self._pattern, self._at)
        if digits is None:
            raise ValueError("\\0 must be followed by octal digits")
        return chr(int(self._take(len(digits[0])), 8))

    def _character_class(self) -> str:
        """Translate a class after its '['; it matches exactly one character.

        Java's classes nest: operands joined by && are intersected, and each operand is the union
        of plain items and inner classes. `(?=X)Y` is an intersection, `(?:X|Y)` a union.
        """
        negated = self._follows("^")
        if negated:
            self._take()
        operands: list[str] = []
        items: list[str] = []
        alternatives: list[str] = []
        first = True
        while not self._follows("]") or first:
            if self._follows("&&"):
                self._take(2)
                operands.append(_union(items, alternatives))
                items, alternatives = [], []
            else:
                self._class_item(items, alternatives)
            first = False
        self._take()
        operands.append(_union(items, alternatives))
        if negated and len(operands) == 1 and not alternatives:
            return f"[^{''.join(items)}]"
        matched = "".join(f"(?={operand})" for operand in operands[:-1]) + operands[-1]
        return f"(?:(?!{matched})[\\s\\S])" if negated else f"(?:{matched})"

    def _class_item(self, items: list[str], alternatives: list[str]) -> None:
        if self._follows("["):
            self._take()
            alternatives.append(self._character_class())
            return
        if self._follows("\\Q"):
            self._take()
            items.extend(_in_class(char) for char in self._quotation())
            return
        low, negated = self._class_character()
        if negated:
            alternatives.append(f"[^{low}]")
            return
        if self._follows("-") and not self._follows("-]") and not self._follows("-["):
            self._take()
            high, high_negated = self._class_character()
            if high_negated:
                raise ValueError("a range in [...] must end with a character")
            items.append(f"{low}-{high}")
            return
        items.append(low)

    def _class_character(self) -> tuple[str, bool]:
        char = self._take()
        return self._one_escape() if char == "\\" else (_in_class(char), False)


def _union(items: list[str], alternatives: list[str]) -> str:
    parts = [f"[{''.join(items)}]"] if items else []
    parts.extend(alternatives)
    if not parts:
        raise ValueError("an operand of && in [...] is empty")
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _in_class(char: str) -> str:
    """Escape a character for a Python class."""
    return char if char.isalnum() or char == "_" or ord(char) > ord("~") else f"\\x{ord(char):02x}"


def _code_point(digits: str) -> str:
    if not digits or set(digits) - set(hexdigits) or int(digits, 16) > 0x10FFFF:  # noqa: PLR2004 - the last code point
        raise ValueError(f"{digits!r} is not a hexadecimal character number")
    return chr(int(digits, 16))
