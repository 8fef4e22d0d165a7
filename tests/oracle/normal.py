"""Takes out of replies what differs from run to run: addresses, generated ids, times, rates, positions in the log."""

import re
from collections.abc import Mapping
from typing import Any

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.properties import parse_properties
from tests.oracle.exchange import JSON, Reply, read_json
from tests.protocol.rocketmq_answers import split_rocketmq

Plain = dict[str, Any]

_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+(:\d+)?")
_PORT = re.compile(r"(?<=\.\d:)\d+")
_UNIQUE_ID = re.compile(r"^[0-9A-F]{32}([0-9A-F]{24})?$")
_EXCEPTION = re.compile(r"$|(java|org|com)\.[\w.$]+(Exception|Error)|Cannot invoke|For input string")
_UNORDERED = {"topicList", "queueDatas", "brokerDatas", "consumerIdList", "lockOKMQSet"}
_TIMES = {"timestamp", "lastUpdateTimestamp", "lastTimestamp"}
# Each broker takes samples every ten seconds, at its own moments.
_RATES = {"topicPutTps", "consumeTps"}
_TIMER_TIMES = {"TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_DELIVER_MS"}

EXCEPTION = "<a Java exception>"


def normal(reply: Reply) -> Plain:
    """Return a reply's parts under their names."""
    parts: Plain = {"code": reply.code, "remark": _remark(reply)}
    for name, value in (reply.fields or {}).items():
        if name not in reply.apart:
            parts[f"field {name}"] = _field(name, value)
    parts["body"] = _body(reply)
    if reply.codec != JSON:
        parts["codec"] = reply.codec
    if reply.reported:
        parts["told"] = reply.reported
    return parts


def _remark(reply: Reply) -> str | None:
    if reply.code == ResponseCode.SYSTEM_ERROR and _EXCEPTION.match(reply.remark or ""):
        return EXCEPTION
    return None if reply.remark is None else _ADDRESS.sub("<address>", reply.remark)


def _field(name: str, value: Any) -> Any:
    if name in ("msgId", "offsetMsgId"):
        return f"{value.count(',') + 1} id(s)"
    if name in _TIMES and value != "-1":
        return "<time>"
    if isinstance(value, str) and _UNIQUE_ID.match(value):
        return "<unique id>"
    return value


def _body(reply: Reply) -> Any:
    if not reply.body:
        return None
    if reply.reads == "records":
        return _records(reply.body)
    if reply.reads == "json":
        return _json(read_json(reply.body))
    return _PORT.sub("<port>", reply.body.decode("utf-8", "backslashreplace"))


def _records(body: bytes) -> list[Plain]:
    rows = []
    for record, _ in split_rocketmq(body):
        properties: Mapping[str, str] = parse_properties(record.properties)
        rows.append(
            {
                "topic": record.topic,
                "queue": (record.queue_id, record.queue_offset),
                "born": record.born_ms,
                "flags": (record.sys_flag, record.flag),
                "reconsume times": record.reconsume_times,
                "prepared": record.prepared_position > 0,
                "properties": {name: _property(name, value) for name, value in sorted(properties.items())},
                "body": record.body.decode("utf-8", "backslashreplace"),
            }
        )
    return rows


def _property(name: str, value: str) -> str:
    if name == "ORIGIN_MESSAGE_ID":
        return "<id>"
    if name in _TIMER_TIMES:
        return "<ms>"
    return "<unique id>" if _UNIQUE_ID.match(value) else value


def _json(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {str(key): _json(item, str(key)) for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, list):
        items = [_json(item) for item in value]
        return sorted(items, key=repr) if name in _UNORDERED else items
    if name in _TIMES:
        return "<time>"
    if name in _RATES:
        return "<rate>"
    return _ADDRESS.sub("<address>", value) if isinstance(value, str) else value
