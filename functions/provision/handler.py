"""A custom resource of the deployment: search indexes are there before any function needs them."""

from shared.api.custom_resource import CustomResourceEvent, settle
from shared.bootstrap.upgrade import provisioned


def handler(event: CustomResourceEvent, context: object = None) -> None:
    settle(event, provisioned)
