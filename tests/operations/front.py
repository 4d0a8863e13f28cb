"""The back office in a browser: a web server beside the workers of an office, and who looks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx
from playwright.sync_api import Browser, Locator, Page

from config.embedded.ports import free as free_port
from tests.browser.looking import complaints
from tests.operations.office import Office
from tests.wait import wait_until

NAME, PASSWORD = "olga", "a long password"
REASON = "spoke with the customer"
WAIT = 90_000
"""Milliseconds for what must come true by itself."""
SEND = """async ([data, times]) => {
  const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
  const send = async () => (await fetch("/api/v1/operations/enqueue", {
    method: "POST", headers: {"Content-Type": "application/json", "X-CSRFToken": token},
    body: JSON.stringify(data),
  })).json();
  return Promise.all(Array.from({length: times}, send));
}"""
"""What the front end of an agent does when its button is clicked so many times."""


class Front:
    """A visitor of the admin who may do everything, and the buttons that are pressed."""

    def __init__(self, office: Office, browser: Browser) -> None:
        self.office = office
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        env = {**office.env, "HTTPS": "off", "DEBUG": "on"}
        jobs = {**office.jobs, "SCOPE": ["operations.access.scope"]}
        office.fleet.manage("relay", "jobs", "relay", env=env, jobs=jobs)
        office.fleet.manage("web", "jobs", "web", str(port), env=env, jobs=jobs)
        office.tell({"staff": NAME, "password": PASSWORD})
        wait_until(self._answers, 60, message="the web server answers")
        self.context = browser.new_context(locale="en-GB", viewport={"width": 1440, "height": 900})
        self.context.set_default_timeout(WAIT)
        self.page: Page = self.context.new_page()
        self.complaints = complaints(self.page)
        self.page.goto(f"{self.url}/admin/login/")
        self.page.get_by_label("Username").fill(NAME)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url("**/admin/")

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/api/v1/health/live").status_code == 200
        return False

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.url}/admin/operations/{path}")
        return self.page

    def board(self) -> Page:
        """The board, as soon as the server sends its changes."""
        self.open("agent/")
        self.page.locator(".jd-live[data-state=live]").wait_for()
        return self.page

    def line(self, agent: str) -> Locator:
        """What the board says of an agent."""
        return self.page.locator(
            "tr[data-jd-row]", has=self.page.locator(f'th a[href*="/{agent}/"]')
        )

    def operation(self, id: str) -> Page:
        return self.open(f"operation/{id}/change/")

    def await_words(self, id: str, *words: str) -> str:
        """The page of the operation, when it says so."""

        def found() -> str:
            text = " ".join(self.operation(id).inner_text(".jd").split())
            return text if all(one in text for one in words) else ""

        return wait_until(found, WAIT / 1000, 0.3, f"{id} says {words}")

    def send(self, agent: str, type: str, data: dict[str, Any], times: int = 1) -> list[Any]:
        """The answers to an operation that the agent's front end enqueues."""
        found: list[Any] = self.page.evaluate(
            SEND, [{"agent": agent, "type": type, "data": data}, times]
        )
        return found

    def ask(self, agent: str, type: str, data: dict[str, Any]) -> str:
        [answer] = self.send(agent, type, data)
        assert answer["success"], answer
        return str(answer["jobId"])

    def press(self, label: str, choices: dict[str, str] | None = None, **fields: str) -> None:
        """Press a button, fill in the page that asks, and send it."""
        self.page.get_by_role("link", name=label).first.click()
        for name, value in fields.items():
            self.page.get_by_label(name.replace("_", " "), exact=True).fill(value)
        for name, value in (choices or {}).items():
            self.page.get_by_label(name, exact=True).select_option(value)
        self.send_form()

    def send_form(self) -> None:
        """Give the reason and send the page that asks."""
        self.page.get_by_label("Reason").fill(REASON)
        self.page.locator(".jd form[method=post] button").first.click()
        self.page.wait_for_url(lambda url: "/do/" not in url)

    def tab_to(self, text: str) -> None:
        """Press Tab until the link or button with this text has the keyboard."""
        for _ in range(30):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("document.activeElement.innerText") == text:
                return
        raise AssertionError(f"{text} is not reached by the keyboard")

    def close(self) -> None:
        self.context.close()
