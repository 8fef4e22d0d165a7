"""One resend: sends letters, notes which were sent and which are left, and describes how to continue after an error."""

from collections.abc import Sequence

from staticfire.client.admin.dead_letters import DeadLetter, LetterPlace
from staticfire.client.admin.resend_targets import ResendTargets
from staticfire.client.admin.resending import LeftLetter, ResendInterrupted, ResendReport, resent_request
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.produce.send_result import STATUS_OF_CODE
from staticfire.protocol.errors import (
    ClientError,
    MessageIllegal,
    NoMaster,
    StaticfireError,
    TopicNotFound,
    broker_answer,
)

# How many ids an error names.
IDS_SHOWN_MAX = 20


class ResendRun:
    """Sends letters one after the other."""

    def __init__(self, client: ClusterClient, targets: ResendTargets, group: str, timeout_ms: int) -> None:
        self._client = client
        self._targets = targets
        self._group = group
        self._timeout_ms = timeout_ms
        self.report = ResendReport()
        """What was done so far."""

    async def send(self, letter: DeadLetter, once: bool) -> bool:
        """Send a letter, unless `once` is True and it was sent before. Return False if it can't be sent: it is left.

        Raises: StaticfireError (it could be sent later).
        """
        report = self.report
        try:
            topic, queue = await self._targets.target(letter, once)
            if queue is None:
                report.skipped += 1
                return True
            request = resent_request(letter, queue, topic)
            answer = await self._client.ask_broker(queue, request, self._timeout_ms)
            if answer.code not in STATUS_OF_CODE:
                raise broker_answer(answer.code, answer.remark, f"send {letter.id} to {queue}")
        except NoMaster:
            raise
        except (TopicNotFound, MessageIllegal, ClientError) as error:
            report.left.append(LeftLetter(letter.id, str(error)))
            return False
        report.resent[topic] = report.resent.get(topic, 0) + 1
        return True

    async def end(self) -> ResendReport:
        """Return the report, with the groups that also get the letters."""
        groups = await self._targets.other_groups(self.report.resent)
        self.report.other_groups, self.report.other_groups_unknown = groups.names, groups.unknown
        return self.report

    async def send_each(self, letters: Sequence[DeadLetter]) -> None:
        """Send these letters, however often they were sent before. Raises: ResendInterrupted."""
        for number, letter in enumerate(letters):
            try:
                await self.send(letter, once=False)
            except StaticfireError as error:
                ids = [one.id for one in letters[number : number + IDS_SHOWN_MAX]]
                more = len(letters) - number - len(ids)
                words = f"Not sent yet: {', '.join(ids)}" + (f" and {more} more" if more else "")
                raise self.interrupted(letter.id, error, words) from error

    def way_out(self, place: LetterPlace, again: bool) -> str:
        """Return a sentence about how to continue a resend of all at a place."""
        if not again:
            return "To continue there, resend all again"
        command = f"staticfire dlq resend {self._group} --all --again --from {place}"
        return f"To continue there, resend all again from {place} on: {command} (and the same --to or --only-group)"

    def interrupted(self, next_id: str, error: StaticfireError, way_out: str) -> ResendInterrupted:
        """Return the error of a resend that couldn't send a letter. `way_out`: a sentence about how to continue."""
        words = f"{self._group}: sent {self.report.count} dead letters, then {next_id} failed: {error}. {way_out}"
        return ResendInterrupted(words, self.report, next_id)
