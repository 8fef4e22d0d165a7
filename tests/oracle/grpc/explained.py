"""Differences from RocketMQ's proxy 5.3.3 that are meant to be."""

from tests.oracle.compare import Explained

_MESSAGE = "*status.message"
_CLASS = "the message says what is wrong, not which exception it caused"
_ENTRIES = "where all entries have one code, the message is the first one's; RocketMQ repeats the code's name"

EXPLAINED = [
    # Words
    Explained("*", _MESSAGE, _CLASS, "org.apache.rocketmq.*"),
    Explained("*", _MESSAGE, _CLASS, "java.lang.*"),
    Explained("*", _MESSAGE, _CLASS, "Parse failed, dataList size 1. IllegalArgumentException*"),
    Explained("*", _MESSAGE, "the message names the way out", "CODE: 17  DESC: No topic route info*"),
    Explained("ack*", "0.status.message", _ENTRIES, "IN*"),
    Explained("acknowledgements", _MESSAGE, "there are several codes, and the message says so", "MULTIPLE_RESULTS"),
    Explained("settings without pub and sub", "words", "all refusals of settings begin alike"),
    Explained("settings with bars", "words", "the message names the way out"),
    Explained("receive by bars", _MESSAGE, "the message names the way out"),
    Explained("send two halves", _MESSAGE, "the message says why, not what it may be"),
    # Other roads
    Explained("questions of administrators", "*", "brokers pass these on to endpoints; RocketMQ's in local mode alone"),
    Explained("send for in an hour", "*offset", "how many messages wait already is nothing to compare"),
    Explained("bury an expired one", "*", "a message whose time is over is somebody else's: not given up for them"),
    Explained("dead letters", "third", "the broker gives up what was popped too often, before a receive comes for it"),
]
