"""Removes what a version of a kernel computes and does not use: the index arithmetic of the other core's operations."""

from __future__ import annotations

import ast
from collections.abc import Callable

IsPure = Callable[[ast.expr], bool]


def without_dead_code(definition: ast.FunctionDef, is_pure: IsPure) -> None:
    """Remove assignments of pure expressions whose names are not read afterwards, and what is empty then."""
    remover = _Remover(is_pure)
    definition.body = remover.block(definition.body, frozenset()) or [ast.copy_location(ast.Pass(), definition)]


class _Remover:
    """Walks statements backwards. `live` are the names that are read later; every method returns them as of before."""

    def __init__(self, is_pure: IsPure) -> None:
        self._is_pure = is_pure
        self._live: frozenset[str] = frozenset()
        self._loops: list[tuple[frozenset[str], frozenset[str]]] = []
        """For each enclosing loop the names that are live at its head and behind it."""

    def block(self, statements: list[ast.stmt], live: frozenset[str]) -> list[ast.stmt]:
        """What is left of statements after which `live` are read; leaves the names read before in `_live`."""
        kept: list[ast.stmt] = []
        self._live = live
        for statement in reversed(statements):
            left = self._statement(statement)
            if left is not None:
                kept.append(left)
        kept.reverse()
        return kept

    def _statement(self, statement: ast.stmt) -> ast.stmt | None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                stored = frozenset[str]().union(*map(_stored, targets))
                if all(_is_plain(target) for target in targets):
                    if not stored & self._live and self._is_pure(value):
                        return None
                    self._live -= stored
                self._live |= frozenset[str]().union(*map(_read, targets)) | _read(value)
                return statement
            case ast.If():
                return self._if(statement)
            case ast.For():
                return self._for(statement)
            case ast.While():
                return self._while(statement)
            case ast.With(items=items, body=body):
                statement.body = self.block(body, self._live)
                self._live |= frozenset[str]().union(*(_read(item.context_expr) for item in items))
                return statement if statement.body else None
            case ast.Return():
                self._live = _read(statement)
                return statement
            case ast.Break() | ast.Continue():
                head, behind = self._loops[-1]
                self._live = behind if isinstance(statement, ast.Break) else head
                return statement
            case ast.Pass():
                return None
        self._live |= _read(statement)
        return statement

    def _if(self, statement: ast.If) -> ast.stmt | None:
        after = self._live
        statement.orelse = self.block(statement.orelse, after)
        otherwise = self._live
        statement.body = self.block(statement.body, after)
        self._live |= otherwise
        if not statement.body and not statement.orelse and self._is_pure(statement.test):
            return None
        statement.body = statement.body or [ast.copy_location(ast.Pass(), statement)]
        self._live |= _read(statement.test)
        return statement

    def _for(self, statement: ast.For) -> ast.stmt | None:
        after = self._live
        self._loop(statement, after, frozenset(), _stored(statement.target))
        if not statement.body and self._is_pure(statement.iter) and not _stored(statement.target) & after:
            self._live = after
            return None
        statement.body = statement.body or [ast.copy_location(ast.Pass(), statement)]
        self._live |= after | _read(statement.iter)
        return statement

    def _while(self, statement: ast.While) -> ast.stmt | None:
        after = self._live
        self._loop(statement, after, _read(statement.test), frozenset())
        statement.body = statement.body or [ast.copy_location(ast.Pass(), statement)]
        self._live |= after | _read(statement.test)
        return statement

    def _loop(
        self, statement: ast.For | ast.While, after: frozenset[str], test: frozenset[str], target: frozenset[str]
    ) -> None:
        """Clean the body of a loop: first grow the names that are live at its head until nothing changes.

        `after` are live behind the loop; `test` are read, and `target` written, before every turn.
        """
        head = after | test
        while True:
            self._loops.append((head, after))
            probe = [_copied(inner) for inner in statement.body]
            self.block(probe, head)
            self._loops.pop()
            grown = head | (self._live - target)
            if grown == head:
                break
            head = grown
        self._loops.append((head, after))
        statement.body = self.block(statement.body, head)
        self._loops.pop()
        self._live = head


def _copied(statement: ast.stmt) -> ast.stmt:
    """The statement again, with lists of its own for the statements in it; expressions are shared."""
    fields = dict(ast.iter_fields(statement))
    for name in ("body", "orelse"):
        if name in fields:
            fields[name] = [_copied(inner) for inner in fields[name]]
    return ast.copy_location(type(statement)(**fields), statement)


def _stored(node: ast.AST) -> frozenset[str]:
    return frozenset(
        child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    )


def _read(node: ast.AST) -> frozenset[str]:
    return frozenset(
        child.id for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)
    )


def _is_plain(target: ast.expr) -> bool:
    """A name or names, rather than an element or attribute of something."""
    return isinstance(target, ast.Name) or (isinstance(target, ast.Tuple) and all(map(_is_plain, target.elts)))
