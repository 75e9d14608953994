#!/usr/bin/env python3
"""Writes starts.txt: when the clocks of some time zones with strange rules first show each hour from 1970 to 2040.

    pip install tzdata
    python3 starts.py >starts.txt

Days, weeks and months start with an hour, so that this is the table of all periods. A line has the name of a zone, the first
hour in local time, in hours since 1970, and then runs of hours: how many there are, and by how many seconds the clocks are
ahead of UTC when they first show them. An hour that the clocks skip starts when they first show a later time.
"""

import itertools
import zoneinfo
from datetime import datetime, timedelta, timezone

import tzdata

ZONES = [
    "Africa/Cairo",  # goes forward at midnight, and back at the end of a day
    "Africa/Casablanca",  # leaves its time for Ramadan, which makes four changes a year
    "Africa/Monrovia",  # 44 minutes and 30 seconds behind UTC until 1972
    "America/Caracas",  # back by half an hour in 2007
    "America/Havana",  # from midnight to one, and from one to midnight
    "America/Los_Angeles",
    "America/Sao_Paulo",  # from midnight to one, and from midnight to eleven
    "America/St_Johns",  # one minute after midnight; by two hours in 1988
    "Antarctica/Casey",  # by two and three hours
    "Antarctica/Troll",  # by two hours each year
    "Asia/Kathmandu",  # 45 minutes; forward by 15 minutes in 1986
    "Asia/Pyongyang",  # half an hour back in 2015, and forward in 2018
    "Australia/Lord_Howe",  # by half an hour each year
    "Pacific/Apia",  # without 30 December 2011
    "Pacific/Chatham",  # 45 minutes, and by an hour each year
    "Pacific/Kwajalein",  # without 21 August 1993
]
EPOCH = datetime(1970, 1, 1)
END = datetime(2040, 1, 1)
HOUR = timedelta(hours=1)

zoneinfo.reset_tzpath([])  # the package, and not the system's database


def utc(local, zone, fold):
    return local.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc)


def first_shown(local, zone):
    """The first instant at which the clocks show a local time, or a later one if they skip it."""
    first = utc(local, zone, 0)
    if first.astimezone(zone).replace(tzinfo=None) == local:
        return first
    # The clocks skip it. They change between what the two offsets make of it.
    before, after = sorted((first, utc(local, zone, 1)))
    before -= timedelta(seconds=1)
    offset = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        middle -= timedelta(microseconds=middle.microsecond)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def row(name):
    zone = zoneinfo.ZoneInfo(name)
    first = EPOCH - 14 * HOUR
    while first_shown(first, zone).replace(tzinfo=None) <= EPOCH:
        first += HOUR
    hours = itertools.takewhile(lambda local: local < END, (first + n * HOUR for n in itertools.count()))
    ahead = (local - first_shown(local, zone).replace(tzinfo=None) for local in hours)
    runs = ((seconds, len(list(run))) for seconds, run in itertools.groupby(int(a.total_seconds()) for a in ahead))
    return " ".join([name, str((first - EPOCH) // HOUR)] + [f"{count}:{seconds}" for seconds, count in runs])


print("# By starts.py, with the database " + tzdata.IANA_VERSION)
for name in ZONES:
    print(row(name))
