"""The file that records are appended to, by one process or several."""

import os
import stat
from pathlib import Path


class OutFile:
    """An open file that only grows: each piece is one write at its end, so that pieces of several
    processes do not mix."""

    def __init__(self, path: Path) -> None:
        """Opens `path`, made for the user alone with the directories above it when it is not there.
        Raises OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Opening a FIFO would wait for its reader.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        try:
            found = os.fstat(self._descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError("it is no regular file")
            size = found.st_size
            self._fragment = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, piece: bytes) -> None:
        """Writes whole lines; when the last piece was cut short, on a line of their own. Raises
        OSError."""
        data = memoryview(b"\n" + piece if self._fragment else piece)
        while data:
            written = os.write(self._descriptor, data)
            self._fragment = written < len(data)
            data = data[written:]

    def close(self) -> None:
        """Nothing can be appended any more."""
        os.close(self._descriptor)
