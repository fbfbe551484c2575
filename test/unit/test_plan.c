/*
 * test_plan.c
 *
 * Who goes first, and who takes room from whom: the worked case of reservations and the field cases, cycle by cycle on
 * simulated clusters, each decided by the core and by the slow oracle; then random sequences of cycles.  Prints TAP;
 * exits 1 when a test failed.  plan_sequences.c runs many more of the latter.
 */
#include "sim_sequence.h"
#include "sim_tails.h"

#define SEQUENCES	300

static Sim	sim;
static int64 preempted;

/* One cycle: the core and the oracle agree, and nothing is broken. */
static void
pass(const char *name)
{
	static SimHistory history;
	Sim			before = sim;
	SimCycle	cycle;
	const char *broken;

	decide_twice(&before, &cycle);
	sim_apply(&sim, cycle.world, cycle.plan);
	preempted += cycle.plan->npreemptions;
	broken = check_cycle(&before, &sim, &cycle, &history);
	if (cycle.differs != NULL || broken != NULL)
	{
		print_cycle(&before, &cycle);
		ok(false, psprintf("%s: %s", name, broken ? broken : "core and oracle agree"));
	}
	shim_reset();
	sim.now++;
	sim.changed = true;
}

static void
begin(void)
{
	memset(&sim, 0, sizeof(Sim));
	sim.now = 1000;
	sim.changed = true;
	preempted = 0;
}

static bool
on(int w, int node)
{
	return sim.work[w].state == SIM_PLACED && sim.work[w].pods[0].node == node;
}

static bool
waits(int w)
{
	return sim.work[w].state == SIM_WAITING;
}

static int
placed_of(int shape)
{
	int			n = 0;

	for (int w = 0; w < SIM_WORK; w++)
		n += sim.work[w].state == SIM_PLACED && sim.work[w].shape == shape;
	return n;
}

/* Two pools of 8 GPUs, jobs of 4, groups dev and research with reservation 8 and limit 16, four jobs each. */
static void
worked_case(void)
{
	int			dev;
	int			research;

	begin();
	sim_pool(&sim, POLICY_BINPACK);
	sim_pool(&sim, POLICY_BINPACK);
	for (int p = 0; p < 2; p++)
		sim_node(&sim, p, 0, 8, 64);
	dev = sim_shape(&sim, sim_policy(&sim, 8, 16), 4);
	research = sim_shape(&sim, sim_policy(&sim, 8, 16), 4);
	for (int i = 0; i < 4; i++)
		sim_submit(&sim, dev, 0, 50);
	sim.now++;
	for (int i = 0; i < 4; i++)
		sim_submit(&sim, research, 1, 50);
	pass("worked case");
	ok(placed_of(dev) == 2 && placed_of(research) == 2, "worked case: two of each are admitted");
	for (int w = 0; w < SIM_WORK; w++)
		if (sim.work[w].shape == research && sim.work[w].state == SIM_PLACED)
			sim_ends(&sim, w, SIM_FREE);
		else if (sim.work[w].shape == research && waits(w))
			sim_withdraw(&sim, w);
	pass("worked case");
	ok(placed_of(dev) == 4 && preempted == 0, "worked case: without demand of research, dev gets all 16");
	for (int i = 0; i < 4; i++)
		sim_submit(&sim, research, 1, 50);
	pass("worked case");
	ok(placed_of(dev) == 2 && placed_of(research) == 2 && preempted == 2, "worked case: research takes back its 8");
	for (int i = 0; i < 5; i++)
		pass("worked case");
	ok(preempted == 2, "worked case: and no more than that, ever");
}

/* A reservation is claimed back from whom holds more than its own, from nobody else, and no further than it goes. */
static void
case_f07(void)
{
	int			a;
	int			b;
	int			c;
	int			a1;
	int			a2;
	int			a3;
	int			b1;
	int			b2;
	int			b3;
	int			c1;
	int			a_four;
	int			b_four;

	begin();
	sim_pool(&sim, POLICY_BINPACK);
	sim_node(&sim, 0, 0, 8, 64);
	sim_node(&sim, 0, 0, 8, 64);
	a = sim_policy(&sim, 8, 16);
	b = sim_policy(&sim, 4, 16);
	c = sim_policy(&sim, 4, 16);
	b_four = sim_shape(&sim, b, 4);
	b1 = sim_submit(&sim, b_four, 0, 50);
	pass("F07");
	b2 = sim_submit(&sim, b_four, 0, 50);
	pass("F07");
	b3 = sim_submit(&sim, sim_shape(&sim, b, 2), 0, 50);
	pass("F07");
	c1 = sim_submit(&sim, sim_shape(&sim, c, 4), 0, 50);
	pass("F07");
	ok(on(b1, 0) && on(b2, 0) && on(b3, 1) && on(c1, 1), "F07: b1, b2, b3, c1 are placed as given");
	a_four = sim_shape(&sim, a, 4);
	a1 = sim_submit(&sim, a_four, 0, 50);
	pass("F07");
	ok(on(a1, 1) && waits(b3) && preempted == 1, "F07: only b3 goes, a1 runs on n2");
	a2 = sim_submit(&sim, a_four, 0, 50);
	pass("F07");
	ok(on(a2, 0) && waits(b2) && on(b1, 0) && preempted == 2, "F07: only b2 goes, the latest of B's two");
	a3 = sim_submit(&sim, sim_shape(&sim, a, 2), 0, 50);
	pass("F07");
	ok(waits(a3) && preempted == 2 && on(b1, 0) && sim.work[c1].attempt == 1,
	   "F07: A is at its reservation, nothing goes, c1 was never touched");
}

/*
 * What a policy can give stands on two nodes in turn.  Taken from the latest on it would be used up where it helps on
 * neither; so those of one node are taken.
 */
static void
entitled_to_a_node(void)
{
	int			one;
	int			four;
	int			b[8];
	int			a;

	begin();
	sim_pool(&sim, POLICY_SPREAD);
	sim_node(&sim, 0, 0, 4, 64);
	sim_node(&sim, 0, 0, 4, 64);
	four = sim_shape(&sim, sim_policy(&sim, 4, 8), 4);
	one = sim_shape(&sim, sim_policy(&sim, 4, 8), 1);
	for (int i = 0; i < 8; i++)
	{
		b[i] = sim_submit(&sim, one, 0, 50);
		pass("a node");
	}
	ok(on(b[6], 0) && on(b[7], 1), "a node: work of B stands on two nodes in turn");
	a = sim_submit(&sim, four, 1, 50);
	pass("a node");
	ok(on(a, 1) && preempted == 4 && waits(b[1]) && waits(b[3]) && waits(b[5]) && waits(b[7]) && placed_of(one) == 4,
	   "a node: A gets one whole node, and B keeps its reservation");
}

/* What is kept for a policy may stand against two of its victims, and not against one. */
static void
fewer_victims(void)
{
	int			kept;
	int			two;
	int			first;
	int			second;
	int			urgent;

	begin();
	sim_pool(&sim, POLICY_BINPACK);
	sim_node(&sim, 0, 0, 3, 64);
	sim_node(&sim, 0, 0, 4, 64);
	sim_node(&sim, 0, 0, 2, 64);
	kept = sim_policy(&sim, 4, 9);
	sim.policies[kept].hold = true;
	two = sim_shape(&sim, kept, 2);
	first = sim_submit(&sim, two, 0, 50);
	pass("fewer victims");
	sim_submit(&sim, sim_shape(&sim, SIM_NONE, 2), 0, 50);
	pass("fewer victims");
	second = sim_submit(&sim, two, 0, 50);
	pass("fewer victims");
	ok(on(first, 2) && on(second, 1), "fewer victims: two of one policy on two nodes");
	sim.nodes[1].takes_work = false;
	urgent = sim_submit(&sim, two, 0, 90);
	pass("fewer victims");
	ok(on(urgent, 2) && preempted == 1 && waits(first) && on(second, 1),
	   "fewer victims: the one that helps goes, though the order comes to the other first");
}

/* The room is bound to the one for whom it was freed, however long the victim takes. */
static void
case_f09(void)
{
	int			four;
	int			low;
	int			mid;
	int			high;
	int			since = 0;

	begin();
	sim_pool(&sim, POLICY_BINPACK);
	sim_node(&sim, 0, 0, 8, 64);
	sim.nodes[0].executor = true;
	four = sim_shape(&sim, SIM_NONE, 4);
	low = sim_submit(&sim, four, 0, 10);
	mid = sim_submit(&sim, four, 0, 50);
	pass("F09");
	high = sim_submit(&sim, four, 0, 100);
	pass("F09");
	ok(sim.work[low].leaving && waits(high) && !sim.work[mid].leaving, "F09: room is held while w_low stops");
	for (int i = 0; i < 20; i++)
	{
		if (i == 2)
			sim_ends(&sim, low, SIM_WAITING);
		pass("F09");
		since += waits(high);
	}
	ok(sim.work[high].state == SIM_PLACED && since <= 2, "F09: w_high runs one pass after w_low has stopped");
	ok(waits(low) && preempted == 1 && sim.work[low].attempt == 1 && sim.work[mid].attempt == 1 &&
	   sim.work[high].attempt == 1, "F09: after 20 passes one preemption, one start each");
}

/* Of two equals the later one goes, and it is the first to come back. */
static void
case_f11(void)
{
	int			one;
	int			e[5];

	begin();
	sim_pool(&sim, POLICY_BINPACK);
	sim_node(&sim, 0, 0, 2, 64);
	one = sim_shape(&sim, SIM_NONE, 1);
	for (int i = 1; i <= 3; i++)
	{
		e[i] = sim_submit(&sim, one, 0, 40);
		sim.now++;
	}
	pass("F11");
	e[4] = sim_submit(&sim, one, 0, 60);
	pass("F11");
	ok(on(e[1], 0) && on(e[4], 0) && waits(e[2]) && waits(e[3]), "F11: e2 makes room for e4");
	sim_ends(&sim, e[4], SIM_FREE);
	pass("F11");
	ok(on(e[1], 0) && on(e[2], 0) && waits(e[3]) && preempted == 1 && sim.work[e[2]].attempt == 2 &&
	   sim.work[e[3]].attempt == 0, "F11: e2 comes back before e3, which never ran");
}

/* The first in line wants a full type: it blocks only what competes with it. */
static void
case_f13(void)
{
	int			j1;
	int			j2;
	int			j3;
	int			j4;

	begin();
	sim_pool(&sim, POLICY_BINPACK);
	sim_node(&sim, 0, 1, 8, 64);
	for (int i = 0; i < 3; i++)
		sim_node(&sim, 0, 0, 8, 64);
	sim_submit(&sim, sim_shape(&sim, SIM_NONE, 8), 0, 50);
	sim.shapes[0].types = 2;
	pass("F13");
	j1 = sim_submit(&sim, 0, 0, 50);
	sim_shape(&sim, SIM_NONE, 8);
	sim.shapes[1].types = 1;
	j2 = sim_submit(&sim, 1, 0, 50);
	j3 = sim_submit(&sim, 1, 0, 50);
	sim_shape(&sim, SIM_NONE, 2);
	sim.shapes[2].types = 1;
	j4 = sim_submit(&sim, 2, 0, 50);
	pass("F13");
	ok(on(j2, 1) && on(j3, 2) && on(j4, 3) && waits(j1), "F13: j2, j3, j4 run, j1 waits for the other type");
}

/* All of a gang or nothing, and the second one as soon as the first has ended. */
static void
case_f15(void)
{
	int			gang;
	int			g1;
	int			g2;

	begin();
	sim_pool(&sim, POLICY_BINPACK);
	for (int i = 0; i < 4; i++)
		sim_node(&sim, 0, 0, 8, 64);
	gang = sim_shape(&sim, SIM_NONE, 8);
	sim.shapes[gang].replicas = 4;
	g1 = sim_submit(&sim, gang, 0, 50);
	g2 = sim_submit(&sim, gang, 0, 50);
	pass("F15");
	ok(sim.work[g1].state == SIM_PLACED && waits(g2), "F15: one gang runs, the other holds nothing");
	sim_ends(&sim, g1, SIM_FREE);
	pass("F15");
	ok(sim.work[g2].state == SIM_PLACED, "F15: then the other");
}

/* Among nodes that fit the fullest for binpack, the emptiest for spread. */
static void
case_f17(SchedulingPolicy policy)
{
	int			w3;
	int			w4;

	begin();
	sim_pool(&sim, policy);
	sim.pools[0].exclusive = policy == POLICY_SPREAD;
	sim_node(&sim, 0, 0, 8, 64);
	sim_node(&sim, 0, 0, 8, 64);
	sim.nodes[1].takes_work = false;
	sim_submit(&sim, sim_shape(&sim, SIM_NONE, 4), 0, 50);
	pass("F17");
	sim.nodes[1].takes_work = true;
	sim.nodes[0].takes_work = false;
	sim_submit(&sim, sim_shape(&sim, SIM_NONE, 6), 0, 50);
	pass("F17");
	sim.nodes[0].takes_work = true;
	w3 = sim_submit(&sim, sim_shape(&sim, SIM_NONE, 2), 0, 50);
	pass("F17");
	w4 = sim_submit(&sim, 0, 0, 50);
	pass("F17");
	if (policy == POLICY_BINPACK)
		ok(on(w3, 1) && on(w4, 0), "F17: binpack fills the node that has just enough");
	else
		ok(on(w3, 0) && waits(w4), "F17: spread takes the emptier one");
}

static void
random_sequences(void)
{
	SimTally	tally = {0};
	int			bad = 0;

	for (int i = 1; i <= SEQUENCES; i++)
		bad += !run_sequence(i, bad == 0, &tally);
	print_tally(&tally);
	ok(bad == 0, psprintf("%d of %d random sequences of %d cycles agree with the oracle", SEQUENCES - bad, SEQUENCES,
						  SIM_CYCLES));
	ok(tally.preemptions[PREEMPT_BORROWED] > 0 && tally.preemptions[PREEMPT_RESERVATION] > 0 &&
	   tally.preemptions[PREEMPT_PRIORITY] > 0 && tally.holds_admitted > 0 && tally.holds_given_up > 0 &&
	   tally.heads > 0 && tally.borrowed > 0, "they have everything in them");
}

int
main(void)
{
	worked_case();
	case_f07();
	entitled_to_a_node();
	fewer_victims();
	case_f09();
	case_f11();
	case_f13();
	case_f15();
	case_f17(POLICY_BINPACK);
	case_f17(POLICY_SPREAD);
	random_sequences();
	test_tails();
	return done_testing();
}
