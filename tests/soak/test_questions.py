"""A question is recognised by its form, whatever it names."""

from __future__ import annotations

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.core.promql import tracing
from quarantine.core.readings import readings_of
from quarantine.settings import shipped_policies
from tests.soak.catalogue import _ANY_TIME
from tests.soak.fleet import Fleet
from tests.soak.questions import form_of


def test_a_question_about_several_devices_has_the_form_of_one_about_one() -> None:
    """Also where no product of matchers names them: a soak would end on a question that nobody foresaw."""
    rules, fleet = load_rules([shipped_policies()]), Fleet()
    machines = [fleet.join(f"node-{number}", _ANY_TIME) for number in range(3)]
    looked = 0
    for policy in rules.policies:
        for reading in readings_of(policy, rules):
            every = [machine.labels(reading.signal.device, number) for number, machine in enumerate(machines)]
            some = [{label: of[label] for label in reading.group if label in of} for of in every]
            for above in (True, False):
                forms = [
                    {
                        form_of(asked.query)
                        for asked in tracing.questions(
                            policy.spec.trigger, reading, some[:count], _ANY_TIME, above=above
                        )
                    }
                    for count in (1, 2, 3)
                ]
                assert forms[0] == forms[1] == forms[2], policy.name
                looked += len(forms[0])
    assert looked > 50
