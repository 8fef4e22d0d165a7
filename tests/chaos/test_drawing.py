"""The drawing of a run: when faults hit, and where messages were stored."""

import re

from staticfire.chaos.drawing import LABEL_ROWS_MAX, LEFT, WIDTH, Drawing, label_rows
from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.planned_fault import numbered, rule
from tests.chaos.runs import delivered, event, message, run


def test_drawing_shows_when_a_rule_hit_and_where_messages_were_stored() -> None:
    (lost_answer,) = numbered([rule("lost-answer", code="SEND_MESSAGE", drop="answer")])
    injected = InjectedFault(lost_answer, hits=2, rules={3})
    events = [delivered(0, 1, at_ms=60), *(event("ruleHit", at_ms=at, rule=3) for at in (25, 75))]
    events.append(event("ruleHit", at_ms=50, rule=4))
    evidence = run(events, messages=[message("orders", 0, "id-0", "order-0")], ended_ms=100, injected=[injected])
    drawing = Drawing(evidence, ["id-0"]).svg()
    bands = [float(x) for x in re.findall(r'<rect class=fault x="([0-9.]+)"', drawing)]
    assert bands == [LEFT + WIDTH * 0.25, LEFT + WIDTH * 0.75]
    assert '<circle class="stored highlighted"' in drawing
    assert "stored in orders/0 at 0: order-0" in drawing


def test_names_of_faults_at_the_same_time_dont_overlap() -> None:
    labels = [(100, "handover"), (100, "rebalance"), (120, "busy"), (170, "busy"), (400, "busy")]
    assert label_rows(labels) == [0, 1, 2, 0, 0]
    assert max(label_rows([(0, "busy")] * 100)) == LABEL_ROWS_MAX - 1
