"""Everything that can happen to the platform, in any order, with I1–I16 checked after every step."""

from collections import Counter
from datetime import timedelta

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shared.evidence.block_evidence import BlockEvidence
from shared.records.submissions import CATEGORY_OF, State
from shared.storage.content import content_hash_of
from shared.submissions.submission_list import ListQuery, list_submissions
from tests.faults.actors import KINDS, SMOOTH, Plan
from tests.faults.skill_sources import CONTENTS, REPOS
from tests.faults.world import World
from tests.support.invariants import histories_of, skills_of

POPULAR = content_hash_of(CONTENTS["popular"])
NAMES = ("greeter", "greeter-2", "writer")
STRANGER = "stranger"
NAMES_OF = {"pause": "held", "down": "unavailable to the end", "lose": "lost reply", "throttle": "throttled"}
POISON = (STRANGER, "", "null", "not json", '{"schema": 1, "id": 7}')
FIGURES: Counter[str] = Counter()  # examples, steps, faults by kind, refused writes: of all runs of this process

plans = st.one_of(st.just(SMOOTH), st.builds(Plan, st.sampled_from(KINDS), st.integers(0, 24)))
cut_short = st.builds(Plan, st.sampled_from(["crash", "pause"]), st.integers(1, 5), st.just("TransactWriteItems"))
skews = st.sampled_from([0, 0, 0, 0, 5, -5]).map(lambda minutes: timedelta(minutes=minutes))
numbers = st.integers(0, 7)
addresses = st.sampled_from([None, "192.0.2.1", "192.0.2.1", "2001:db8::1"])


def _push(content):
    return lambda world, repo: world.sources.heads.update({repo: content})


def _judge(mode):
    return lambda world, _: setattr(world.sources, "judge_mode", mode)


# What is nobody's step: what they find when they take it.
CHANGES = {
    "outage of GitHub": lambda world, _: setattr(world.sources, "github_is_down", not world.sources.github_is_down),
    "outage of the judge": lambda world, _: setattr(world.sources, "judge_is_down", not world.sources.judge_is_down),
    "pause": lambda world, _: world.pause(2),
    "short pause": lambda world, _: world.pause(0.1),
    "end of a pause": lambda world, _: world.lift_pause(),
    "index lag": lambda world, _: setattr(world.dynamo, "frozen", dict(world.dynamo.items)),
    "new rules": lambda world, _: world.new_rules(),
    "other hands": lambda world, repo: world.sources.ids.update({repo: world.sources.ids[repo] + 100}),
    "push of better": _push("better"),
    "push of doubtful": _push("doubtful"),
    "push of good": _push("good"),
    "scans of heavy finish": lambda world, _: setattr(world.sources, "stops_heavy_scans", False),
    "scans of heavy are stopped": lambda world, _: setattr(world.sources, "stops_heavy_scans", True),
    "judge says pass": _judge("pass"),
    "judge has concerns": _judge("concerns"),
    "judge says fail": _judge("fail"),
    "judge forgets the nonce": _judge("wrong nonce"),
}


def check_nobody_pays_or_profits(world):
    """S33: what is certified was approved itself. S32: no rule blocks a skill for the blocked clone of it."""
    histories = histories_of(world.dynamo.items)
    for record in world.records().values():
        if record.cert_tier == "CERTIFIED":
            assert any(e.to_state == State.AUTO_APPROVED and e.actor == "admin:anna" for e in histories[record.id]), (
                f"{record.id} is certified, and no person approved it"
            )
    if world.watcher.slack:
        return  # by whose clock?
    blocks = [
        msgspec.json.decode(item.doc, type=BlockEvidence)
        for key, item in world.dynamo.items.items()
        if key.pk.startswith("near-evidence:")
    ]
    for skill in skills_of(world.dynamo.items):
        if skill.is_blocked_by_rule and skill.content_hash == POPULAR:
            later = [block for block in blocks if block.submitted_at > skill.published_at]
            assert len(later) < len(blocks), f"{skill.name} is blocked for a clone of it"


WEATHER = ("index lag", "outage of GitHub", "outage of the judge", "pause")


class PlatformMachine(RuleBasedStateMachine):
    world: World | None = None

    @initialize(judge=st.booleans(), scanners=st.sampled_from([(), ("bandit",)]))
    def start(self, judge, scanners):
        self.world = World(judge, scanners)
        self.is_sound = False
        FIGURES["examples"] += 1

    @rule(
        name=st.sampled_from(NAMES),
        content=st.sampled_from(sorted(CONTENTS)),
        key=st.sampled_from([None, "key"]),
        plan=plans,
        ip=addresses,
    )
    def submit(self, name, content, key, plan, ip):
        self.world.submit(name, content, key and f"{key}-{name}-{content}", plan, ip)

    @rule(repo=st.sampled_from(REPOS), by_name=st.booleans(), plan=plans, ip=addresses)
    def submit_repo(self, repo, by_name, plan, ip):
        self.world.submit_repo(repo, by_name, plan, ip)

    @rule(picks=st.lists(numbers, min_size=1, max_size=3), plan=plans, skew=skews)
    def deliver(self, picks, plan, skew):
        self._count_skew(skew)
        self.world.deliver(picks, plan, skew)

    @rule(name=st.sampled_from(NAMES), content=st.sampled_from(sorted(CONTENTS)), plan=cut_short)
    def lose_worker(self, name, content, plan):
        """A skill is submitted, and the worker that has claimed it dies or falls silent. Left to chance, this needs a
        submission, its message and the right point together, and hardly ever happens."""
        self.world.submit(name, content)
        self.world.deliver(plan=plan)

    @rule()
    def work(self):
        """Workers without trouble take all there is."""
        for _ in range(5):
            self.world.deliver()

    @rule(n=numbers)
    def duplicate(self, n):
        self.world.duplicate(n)

    @rule(body=st.sampled_from(POISON))
    def poison(self, body):
        """A body that names nothing, or a record that is not there."""
        FIGURES["fault: poison"] += 1
        if body == STRANGER:
            self.world.stranger()
        else:
            self.world.poison(body)

    @precondition(lambda self: self.world.held())
    @rule(n=numbers)
    def go_on(self, n):
        """A worker that was taken for dead, or a scan that another one overlapped, is resumed."""
        held = self.world.held()
        FIGURES["fault: zombie"] += 1
        self.world.go_on(held[n % len(held)])

    @precondition(lambda self: self.world.held())
    @rule()
    def restart(self):
        self.world.restart()

    @rule(minutes=st.sampled_from([0.2, 1, 3, 6, 13, 16, 61]))
    def tick(self, minutes):
        self.world.dynamo.frozen = None
        self.world.tick(minutes=minutes)

    @rule(plan=plans, skew=skews)
    def scan(self, plan, skew):
        self._count_skew(skew)
        self.world.scan(plan, skew)

    @rule(plan=plans)
    def bury(self, plan):
        self.world.bury(plan)

    @precondition(lambda self: self.world.records())
    @rule(
        verb=st.sampled_from(["approve", "reject", "block", "dequeue", "requeue", "rescue_stuck"]),
        n=numbers,
        plan=plans,
    )
    def decide(self, verb, n, plan):
        ids = sorted(self.world.records())
        self.world.decide(verb, ids[n % len(ids)], plan)

    @rule(plan=plans)
    def retry_letters(self, plan):
        self.world.retry_letters(plan)

    @rule(plan=plans)
    def rescan(self, plan):
        self.world.rescan(plan)

    @rule(change=st.sampled_from(sorted(CHANGES)), repo=st.sampled_from(REPOS))
    def something_changes(self, change, repo):
        if change in WEATHER:
            FIGURES[f"fault: {change}"] += 1
        CHANGES[change](self.world, repo)

    @precondition(lambda self: not self.world.watcher.slack)
    @rule(limit=st.sampled_from([1, 2, 500]))
    def look(self, limit):
        self._check_list(limit)

    @invariant()
    def sound(self):
        if self.world is None:
            return
        FIGURES["steps"] += 1
        self.is_sound = False
        self.world.check()
        check_nobody_pays_or_profits(self.world)
        self.is_sound = True

    def teardown(self):
        if self.world is None:
            return
        try:
            if self.is_sound:
                self.world.come_to_rest()
                self.world.check_rest()
                self._check_list(1)
                self._check_list(500)
        finally:
            FIGURES.update({f"fault: {NAMES_OF.get(kind, kind)}": n for kind, n in self.world.injected.items()})
            FIGURES.update({f"refused: {what}": n for what, n in self.world.dynamo.refused.items()})
            self.world.close()

    def _count_skew(self, skew):
        FIGURES["fault: skew"] += bool(skew)

    def _check_list(self, limit):
        """I14: what a page shows is what the records say, in any page size, and the cards are the counts."""
        rows, query = [], ListQuery(limit=limit)
        while True:
            listing = self.world.ask(lambda q=query: list_submissions(q))
            rows += listing.rows
            if listing.next_position is None:
                break
            query = query._replace(after=listing.next_position)
        records = self.world.records()
        newest_first = sorted(records.values(), key=lambda r: (r.created_at, r.id), reverse=True)
        assert [(row.id, row.state, row.version) for row in rows] == [
            (record.id, record.state, record.version) for record in newest_first
        ], "I14: the list is what the records say"
        cards = Counter(CATEGORY_OF[record.state] for record in records.values())
        stats = listing.stats
        shown = {"active": stats.active, "published": stats.published, "rejected": stats.rejected}
        shown |= {"blocked": stats.blocked, "onHold": stats.on_hold}
        assert shown == {category: cards[category] for category in shown}, "I14: page cards are the counters"
