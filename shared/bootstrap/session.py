"""AWS as the environment of this process names it."""

from __future__ import annotations

from botocore.session import Session

REGION = ("region", ["AWS_REGION", "AWS_DEFAULT_REGION"], None, None)


def aws_session() -> Session:
    """A session that knows the region by either variable. botocore alone reads the older one only, where the command
    line, CDK and Lambda go by the newer."""
    return Session(session_vars={"region": REGION})
