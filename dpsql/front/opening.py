"""A session that can be looked at before it can answer.

Policy, snapshot and account are opened in a tenth of a second; compiler and engine take half a second more, most of it
imports. An interactive session needs these only when somebody has typed a statement, so they are loaded beside, while
the prompt stands there.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.front.diagnostics import guarded, spinner

if TYPE_CHECKING:
    from dpsql.ledger import Balance
    from dpsql.owner import Opened
    from dpsql.policy.model import Policy
    from dpsql.policy.vocabulary import TableWords
    from dpsql.session import Session
    from dpsql.shows import Vocabulary


class Opening:
    """What is there at once, and the session once it is there. Used from one thread. kept: files that results must
    spare."""

    def __init__(self, by: Opened, kept: Sequence[Path] = ()) -> None:
        self._by, self.kept = by, kept
        self._session: Session | None = None
        self._failed: Error | None = None
        self._loading: threading.Thread | None = None
        self._closed = False

    @property
    def policy(self) -> Policy:
        return self._by.policy

    @property
    def ready(self) -> Session | None:
        """The session, if it is there by now."""
        return self._session

    @property
    def session(self) -> Session:
        """The session, waited for. Raises the error with which it could not be opened."""
        if self._session is None:
            with spinner("loading"):
                self.begin()
                assert self._loading is not None
                self._loading.join()
        if self._failed is not None:
            raise self._failed
        assert self._session is not None
        return self._session

    def begin(self) -> None:
        """Start to load, where that was not done."""
        if self._loading is None:
            self._loading = threading.Thread(target=self._load, name="dpsql-loading", daemon=True)
            self._loading.start()

    def _load(self) -> None:
        try:
            self._session = guarded(self._started)
        except Error as error:
            self._failed = error

    def _started(self) -> Session:
        from dpsql.session import started

        return started(self._by)

    def budget(self) -> Balance:
        """What is spent and left."""
        return guarded(self._by.ledger.balance)

    def tables(self) -> Mapping[str, TableWords]:
        """The policy's names, by what can be done with them."""
        from dpsql.policy.vocabulary import words_of

        return guarded(partial(words_of, self.policy, self._by.snapshot.facts))

    def vocabulary(self) -> Vocabulary | None:
        """All names, once the session is there."""
        return None if self._session is None else guarded(self._session.vocabulary)

    def close(self) -> None:
        """Close what is open. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._loading is not None:
            self._loading.join()
        if self._session is not None:
            guarded(self._session.close)
        elif self._failed is None:
            guarded(self._by.ledger.close)
