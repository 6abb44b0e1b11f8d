"""The demo model: answers from fixed rules, without a key and without a network."""
