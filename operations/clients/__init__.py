"""The ERP's clients."""

from operations.clients.erp import Erp, Found, connect

__all__ = ["Erp", "Found", "connect"]
