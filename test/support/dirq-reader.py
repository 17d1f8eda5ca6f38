"""ssmsend's part with the real python-dirq: dirq-reader.py QUEUE SEED.

Takes messages as ssmsend does (iterate, lock, get, remove, purge) and reports each one that it sent as a line of JSON,
in order. Sometimes it holds a lock for a while, sometimes it "crashes": it leaves its lock, before or after sending, and
goes on like a new process. At the end of its input it empties the queue and stops.
"""
import json
import random
import select
import sys
import time

from dirq.QueueSimple import QueueSimple

MAXLOCK = 2
path, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)


def report(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def take(queue, name, crashes):
    if not queue.lock(name):
        report(event="locked_out")
        return
    body = queue.get(name).decode("latin-1")
    if chance.random() < 0.1:
        time.sleep(chance.uniform(0.02, 0.15))
    fate = chance.random() if crashes else 1
    if fate < 0.02:
        report(event="crash")
        return
    report(event="sent", name=name, body=body)
    if fate < 0.04:
        report(event="crash")
        return
    queue.remove(name)


def one_pass(crashes):
    queue = QueueSimple(path)
    for name in queue:
        take(queue, name, crashes)
    try:
        queue.purge(maxtemp=300, maxlock=MAXLOCK)
    except OSError as error:
        # python-dirq's own race: a directory it found empty has a message by now
        report(event="purge_failed", error=str(error))
    return queue.count()


report(event="up")
while not select.select([sys.stdin], [], [], 0)[0]:
    one_pass(True)
    time.sleep(chance.uniform(0.005, 0.1))
while one_pass(False):
    time.sleep(0.05)
