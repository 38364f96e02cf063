"""The audit of a served engine, as a black box: a client by httpx, the dialects, and fourteen tests."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.diagnosis.endpoint.client import Client as Client
    from unmask.diagnosis.endpoint.dialects import DIALECTS as DIALECTS
    from unmask.diagnosis.endpoint.suite import Audit as Audit
    from unmask.diagnosis.endpoint.suite import audit as audit

__getattr__, __dir__ = lazily(__name__)
