"""Admin pages: operations, agents, sync runs, documents and the mirror; a panel on job pages."""

from operations.admin.agents import AgentAdmin
from operations.admin.documents import DocumentAdmin
from operations.admin.mirror import MirrorAdmin
from operations.admin.operations import OperationAdmin
from operations.admin.panel import operation_panel
from operations.admin.runs import SyncRunAdmin

__all__ = ["AgentAdmin", "DocumentAdmin", "MirrorAdmin", "OperationAdmin", "SyncRunAdmin",
           "operation_panel"]  # fmt: skip
