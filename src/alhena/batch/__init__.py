"""Many tasks at once: their queue, their limits, the engines that run them, their results."""
