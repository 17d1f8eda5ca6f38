"""ssmsend's view of dirq queues with the real python-dirq, for one test file: a request a line on stdin, an answer a line.

{"action": "read" | "take" | "lock" | "send", "queue": PATH, "names": [...]}. `read` looks at what ssmsend would send, in its
order; `take` sends all that is not locked; `lock` takes locks and keeps them, `send` sends what was locked.
"""
import json
import sys

from dirq.QueueSimple import QueueSimple


def all_of(queue, keep):
    messages = []
    for name in queue:
        if not queue.lock(name):
            continue
        messages.append({"name": name, "body": queue.get(name).decode("latin-1")})
        if keep:
            queue.unlock(name)
        else:
            queue.remove(name)
    return messages


for line in sys.stdin:
    request = json.loads(line)
    queue = QueueSimple(request["queue"])
    action = request["action"]
    if action in ("read", "take"):
        answer = all_of(queue, action == "read")
        queue.purge()
    elif action == "lock":
        names = request["names"] or [name for name in queue]
        answer = [{"name": name, "body": ""} for name in names if queue.lock(name)]
    else:
        answer = []
        for name in request["names"]:
            answer.append({"name": name, "body": queue.get(name).decode("latin-1")})
            queue.remove(name)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
