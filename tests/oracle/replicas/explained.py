"""Differences between a slave of RocketMQ and ours that are meant to be, by step."""

EPOCHS = "logs of ours with slaves have epochs, which RocketMQ's have only with a controller"
EXPLAINED = {
    "master: epochs": EPOCHS,
    "slave: epochs": EPOCHS,
    "dead slave, minInSyncReplicas 2: send": "ours refuses it also without a controller, as the setting says",
    "slave: lock": "ours locks none: after a failover, a member with the old route would own a queue of another one",
    "slave: pop": "ours refuses it: a pop at RocketMQ's slave moves the offset, and its check-point can't be stored",
}
