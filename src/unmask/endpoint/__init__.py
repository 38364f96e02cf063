"""Servers of others, as black boxes: a client, their dialects and the audit of a server."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.endpoint.client import Answer as Answer
    from unmask.endpoint.client import Client as Client
    from unmask.endpoint.client import Query as Query
    from unmask.endpoint.dialects import DIALECTS as DIALECTS
    from unmask.endpoint.suite import Audit as Audit
    from unmask.endpoint.suite import audit as audit
    from unmask.endpoint.wire import Limits as Limits

__getattr__, __dir__ = lazily(__name__)
