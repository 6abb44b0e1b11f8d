"""Who answers: the ContentGenerator protocol and what implements it."""
