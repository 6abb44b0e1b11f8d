"""How far two short texts are apart."""


def edit_distance(a: str, b: str) -> int:
    """The least number of insertions, deletions and substitutions that make `a` into `b`.

    Myers' bit-parallel algorithm: one step for each character of the longer text, on integers as
    wide as the shorter one.
    """
    if a == b:
        return 0
    if len(a) > len(b):
        a, b = b, a
    if not a:
        return len(b)
    places: dict[str, int] = {}
    for index, char in enumerate(a):
        places[char] = places.get(char, 0) | 1 << index
    mask = (1 << len(a)) - 1
    last = 1 << (len(a) - 1)
    plus, minus, score = mask, 0, len(a)
    for char in b:
        equal = places.get(char, 0)
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up = minus | (~(horizontal | plus) & mask)
        down = plus & horizontal
        if up & last:
            score += 1
        elif down & last:
            score -= 1
        up = (up << 1 | 1) & mask
        down = down << 1 & mask
        plus = down | (~(vertical | up) & mask)
        minus = up & vertical
    return score
