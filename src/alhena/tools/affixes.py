"""What two texts begin and end with in common, found by comparing slices instead of characters."""


def common_prefix(a: str, b: str) -> int:
    """How many characters `a` and `b` begin with in common."""
    low, high = 0, min(len(a), len(b))
    step = 64
    # Short prefixes are the usual ones: double up to the first difference, then halve.
    while step < high and a[low:step] == b[low:step]:
        low, step = step, step * 2
    high = min(high, step)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(a: str, b: str, limit: int) -> int:
    """How many characters `a` and `b` end with in common, at most `limit`."""
    low, high = 0, min(len(a), len(b), limit)
    step = 64
    while step < high and a[len(a) - step : len(a) - low] == b[len(b) - step : len(b) - low]:
        low, step = step, step * 2
    high = min(high, step)
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low
