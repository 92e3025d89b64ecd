"""The Model Context Protocol on the same use cases, scopes and metering as the REST routes."""
