"""The admin of the gateway: emails, companies, the suppression list, and a panel on job pages."""

from emailgw.admin.companies import CompanyAdmin
from emailgw.admin.emails import EmailAdmin
from emailgw.admin.panel import email_panel
from emailgw.admin.suppressions import SuppressionAdmin

__all__ = ["CompanyAdmin", "EmailAdmin", "SuppressionAdmin", "email_panel"]
