"""RocketMQ's words that tools and people look for in refusals, where more than one handler says them."""

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
