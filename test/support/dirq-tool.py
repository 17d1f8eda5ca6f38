"""python-dirq's own view of a queue, for tests: dirq-tool.py ACTION QUEUE [NAME...]; prints JSON."""
import json
import sys

from dirq.QueueSimple import QueueSimple

action, path, names = sys.argv[1], sys.argv[2], sys.argv[3:]
queue = QueueSimple(path)
if action == "read":
    bodies = []
    for name in queue:
        if queue.lock(name):
            bodies.append(queue.get(name).decode())
            queue.unlock(name)
    print(json.dumps(bodies))
elif action == "lock":
    print(json.dumps([queue.lock(name) for name in names]))
elif action == "send":
    for name in names:
        queue.get(name)
        queue.remove(name)
    print("null")
