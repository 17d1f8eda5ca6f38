"""ssmsend's part in a pod: ssmsend-stand-in.py -c SENDER_CFG. With the real python-dirq it takes what is in the queue.

Each message goes as one line of JSON to the file that the variable SENT names, where AMS would be. As ssmsend does, it reads the
host certificate's key first; without it nothing is sent and it ends with 1.
"""
import configparser
import json
import os
import sys

from dirq.QueueSimple import QueueSimple

config = configparser.ConfigParser()
if not config.read(sys.argv[2]):
    sys.exit("no configuration")
for name in ("certificate", "key"):
    with open(config.get("certificates", name), encoding="utf8") as file:
        file.read()
queue = QueueSimple(config.get("messaging", "path"))
with open(os.environ["SENT"], "a", encoding="utf8") as sent:
    for name in queue:
        if not queue.lock(name):
            continue
        sent.write(json.dumps(queue.get(name).decode()) + "\n")
        sent.flush()
        queue.remove(name)
queue.purge()
print("sent all of", config.get("messaging", "path"))
