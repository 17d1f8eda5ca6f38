"""refuse-links.py ERRNO PROGRAM [ARGUMENT...]: runs a program whose hard links the kernel refuses with that errno (by name),
as it does on FAT and some network file systems. A seccomp filter, so no privilege and no such file system is needed."""
import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": (0xC000003E, (86, 265)), "aarch64": (0xC00000B7, (37,))}  # AUDIT_ARCH, link() and linkat()
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2

arch, calls = NUMBERS[platform.machine()]
answer = getattr(errno, sys.argv[1])


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("HBBI", code, if_true, if_false, value)


steps = [instruction(LOAD, 4), instruction(JUMP_IF_EQUAL, arch, 0, len(calls) + 1), instruction(LOAD, 0)]
steps += [instruction(JUMP_IF_EQUAL, call, len(calls) - index) for index, call in enumerate(calls)]
steps += [instruction(RETURN, ALLOW), instruction(RETURN, REFUSE | answer)]
filters = ctypes.create_string_buffer(b"".join(steps))
program = struct.pack("HP", len(steps), ctypes.addressof(filters))

libc = ctypes.CDLL(None, use_errno=True)
for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, MODE_FILTER, program, 0, 0)):
    if libc.prctl(*arguments) != 0:
        sys.exit(f"prctl{arguments[:2]} failed: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[2], sys.argv[2:])
