"""Samplers with one defect each, and the check that must find it."""

from __future__ import annotations

import threading

import torch

from unmask.core.chance import Stream, uniform
from unmask.denoisers import Canvas, as_marginals
from unmask.samplers import Choice, Sampler, orders, walk
from unmask.samplers.ranking import ranks
from unmask.samplers.rules.autoregressive import Autoregressive
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.rules.low_confidence import LowConfidence


def best(scores, hidden, count, ties):
    return ranks(scores, hidden, ties) < torch.where(hidden, count.unsqueeze(1), 0)


class RevealsTwice(Sampler):
    pace = "steps"

    def choose(self, view):
        return Choice(torch.ones_like(view.hidden))


class LeavesHidden(Sampler):
    pace = "steps"

    def choose(self, view):
        return Choice(view.hidden & (view.rng(Stream.ACCEPT) < 0.3))


class UnknownToken(Sampler):
    def choose(self, view):
        first = best(torch.zeros(view.hidden.shape), view.hidden, view.count, None)
        return Choice(first, torch.full(view.hidden.shape, view.canvas.vocabulary))


class IgnoresBudget(Sampler):
    def choose(self, view):
        return Choice(view.hidden.clone())


class OtherInThreads(Sampler):
    """Keeps something that belongs to the thread which it runs in."""

    def choose(self, view):
        place = torch.arange(view.hidden.shape[1]).double().expand(view.hidden.shape)
        first = place if threading.current_thread() is threading.main_thread() else -place
        return Choice(best(first, view.hidden, view.count, None))


class StepsBeyond(Sampler):
    def order(self, delta, hidden, rng):
        return torch.where(hidden, torch.arange(hidden.shape[1]) + 1, 0)


class LoopsLooking(Sampler):
    """Reveals a position, hides it again, and so on."""

    def run(self, session):
        one = torch.zeros(1, dtype=torch.int64)
        while True:
            session.canvas.at(one, one)
            session.write(one, one, one, torch.ones(1), 1)
            session.hide(one, one, 1)


class LoopsHiding(Sampler):
    """The same without looking."""

    def run(self, session):
        one = torch.zeros(1, dtype=torch.int64)
        while True:
            session.write(one, one, one, torch.ones(1), 1)
            session.hide(one, one, 1)


class LoopsFree(Sampler):
    """Takes back in each step what it revealed in the step before."""

    pace = "free"

    def choose(self, view):
        left = best(torch.zeros(view.hidden.shape), view.hidden, torch.ones(len(view.hidden)), None)
        return Choice(left, hide=view.revealed.clone())


class LoopsReading(Sampler):
    """Reads the first token again and again by the causal reader."""

    def run(self, session):
        start = torch.full((len(session.tokens), 1), session.denoiser.vocabulary)
        while True:
            session.causal.extend(start)
            session.causal.rewind(torch.full((len(start),), -1))


class Ending(Sampler):
    """Ancestral sampling, and then something that it should not do."""

    def run(self, session):
        order = Ancestral().order(session.delta, session.given == session.denoiser.vocabulary, session.rng)
        canvas = session.canvas
        if not bool(order.any()):
            return self.end(session)
        for rows, positions, p in walk(canvas, order):
            tokens = self.draw(session, p, rows, positions, order)
            chance = p.of(tokens)
            session.write(rows, positions, tokens, chance, order[rows, positions])
        return self.end(session)

    def draw(self, session, p, rows, positions, order):
        return session.canvas.draw(p, rows, positions)

    def end(self, session):
        pass


class ChangesPrompt(Ending):
    def end(self, session):
        session.tokens[:] = torch.where(session.order == 0, 0, session.tokens)


class WritesPastTheSession(Ending):
    def end(self, session):
        hidden = session.given == session.denoiser.vocabulary
        session.order[hidden] = 0


class SpoilsTokens(Ending):
    def end(self, session):
        session.tokens[session.order > 0] = -1


class ForgetsModelCalls(Ending):
    def end(self, session):
        session.canvas.model_calls.zero_()


class CannotDoOne(Sampler):
    """Compares neighbours, of which a sequence of one token has none."""

    def choose(self, view):
        scores = view.confidence
        return Choice(best(scores - scores[:, [1, *range(1, scores.shape[1])]], view.hidden, view.count, None))


class BatchFlattened(LowConfidence):
    """One top-k over the whole batch: rows trade positions with each other."""

    pace = "steps"

    def choose(self, view):
        tokens = view.draw()
        scores = view.of(tokens)
        ties = view.rng(Stream.TIE).reshape(1, -1)
        flat = best(scores.reshape(1, -1), view.hidden.reshape(1, -1), view.count.sum().view(1), ties)
        return Choice(flat.view_as(view.hidden), tokens)


class ByPlaceInBatch(Sampler):
    """Luck keyed by the position in the batch, not by the number of the row."""

    def order(self, delta, hidden, rng):
        priority = uniform(rng.seed, Stream.ORDER, torch.arange(len(hidden))[:, None], torch.arange(hidden.shape[1]))
        return orders.by_rank(hidden, priority, lambda count: orders.sizes(delta, count))


class Unkeyed(Sampler):
    def order(self, delta, hidden, rng):
        return orders.by_rank(hidden, torch.rand(hidden.shape), lambda count: orders.sizes(delta, count))


class Seedless(Ending):
    """The same draws whatever the seed."""

    def draw(self, session, p, rows, positions, order):
        return p.draw(uniform(0, Stream.TOKEN, session.rng.row_ids[rows], positions))

    def run(self, session):
        session.rng = type(session.rng)(0, session.rng.row_ids)
        super().run(session)


class Rowless(Ending):
    """The same draws in every row."""

    def draw(self, session, p, rows, positions, order):
        return p.draw(uniform(session.rng.seed, Stream.TOKEN, torch.zeros_like(rows), positions))

    def run(self, session):
        session.rng = type(session.rng)(session.rng.seed, torch.zeros_like(session.rng.row_ids))
        super().run(session)


class Remembers(Sampler):
    """Numbers its calls, and draws other randomness in each."""

    calls = 0

    def order(self, delta, hidden, rng):
        self.calls += 1
        priority = rng.grid(Stream.ORDER, hidden.shape[1], self.calls)
        return orders.by_rank(hidden, priority, lambda count: orders.sizes(delta, count))


class ReusesUniforms(LowConfidence):
    """Every step draws a position from the same uniform."""

    def choose(self, view):
        view.canvas.visits.zero_()
        return super().choose(view)


class AsksPosterior(Ending):
    def draw(self, session, p, rows, positions, order):
        better = session.denoiser.posterior(session.tokens)[rows, positions].double()
        return session.canvas.draw(as_marginals(better), rows, positions)


class OwnCanvas(Ending):
    def draw(self, session, p, rows, positions, order):
        return session.canvas.draw(
            Canvas(session.denoiser, session.tokens.clone(), session.rng).at(rows, positions), rows, positions
        )


class OwnReader(Ending):
    def end(self, session):
        session.denoiser.causal(*session.tokens.shape)


class ChoosesAfterDrawing(LowConfidence):
    """Claims the distribution of choose-then-draw, but which position stays depends on what was drawn there."""

    distribution = "order"


class FinalArgmax(Ending):
    """What is left in the last step is filled by argmax."""

    distribution = "order"

    def draw(self, session, p, rows, positions, order):
        last = order[rows, positions] == len(session.delta)
        return torch.where(last, p.best, session.canvas.draw(p, rows, positions))


class SameStepSeen(Ending):
    """Positions of one step see each other."""

    distribution = "order"

    def draw(self, session, p, rows, positions, order):
        canvas = session.canvas
        seen = Canvas(session.denoiser, session.tokens.clone(), session.rng)
        tokens = torch.zeros_like(positions)
        for place in range(order.shape[1]):
            now = positions == place
            if now.any():
                tokens[now] = canvas.draw(seen.at(rows[now], positions[now]), rows[now], positions[now])
                seen.reveal((rows[now], positions[now]), tokens[now])
        return tokens


class Warm(Autoregressive):
    """Autoregression at a temperature, which claims the distribution of the reader."""

    distribution = "causal"

    def run(self, session):
        visits = torch.zeros_like(session.tokens)
        last = torch.full((len(visits),), session.denoiser.vocabulary)
        rows = torch.arange(len(visits))
        for j in range(visits.shape[1]):
            p = as_marginals(session.causal.extend(last.unsqueeze(1)))
            place = torch.full_like(rows, j)
            last = session.rng.tokens(p.sharpened(0.9), rows, place, visits)
            session.write(rows, place, last, p.of(last), j + 1)


class Cool(Sampler):
    """Places by chance, tokens at a temperature of 0.9: the distribution of an order, nearly."""

    distribution = "order"

    def choose(self, view):
        first = best(torch.zeros(view.hidden.shape), view.hidden, view.count, view.rng(Stream.TIE))
        return Choice(first, self.draw(view))

    def draw(self, view):
        return view.draw(0.9)


class Hot(Cool):
    """The same at 1.1."""

    def draw(self, view):
        return view.draw(1.1)


class Trimmed(Cool):
    """Never the rarest tokens."""

    def draw(self, view):
        return view.draw(top_p=0.9)


class NotTheLanguage(Ancestral):
    """Claims to be exact in any number of steps."""

    distribution = "language"


class Uniform(Ancestral):
    """Claims that all sequences are equally likely."""

    @staticmethod
    def distribution(denoiser, length, delta):
        count = denoiser.vocabulary**length
        return torch.full((count,), 1 / count)


class ReadsPadding(Sampler):
    """Scores positions by what stands behind the row."""

    def choose(self, view):
        scores = (view.tokens[:, -1:] * torch.arange(view.tokens.shape[1])) % 5
        return Choice(best(scores.double(), view.hidden, view.count, None))


class SharesMemory(Sampler):
    """Remembers how sure all rows together have been."""

    def choose(self, view):
        before = view.memory.get("sure", torch.zeros(len(view.hidden)))
        view.memory["sure"] = before + view.confidence.sum()
        place = torch.arange(view.hidden.shape[1])
        scores = torch.cos(view.memory["sure"].unsqueeze(1) * place)
        return Choice(best(scores, view.hidden, view.count, None))


class RemembersOnItself(Sampler):
    """Keeps the last batch's confidence, whichever rows that was of."""

    last = 0.0

    def choose(self, view):
        scores = torch.cos(self.last * torch.arange(view.hidden.shape[1], dtype=torch.float64))
        self.last = float(view.confidence.sum())
        return Choice(best(scores.expand(view.hidden.shape), view.hidden, view.count, None))


class WritesBehindTheEnd(Ending):
    """Asks the stop rule, and goes on as if it had said nothing."""

    def draw(self, session, p, rows, positions, order):
        session.check_stop()
        return super().draw(session, p, rows, positions, order)


class ByPosition(Sampler):
    """A sound rule: later positions first, but every third after all others."""

    distribution = "order"

    def choose(self, view):
        place = torch.arange(view.hidden.shape[1])
        scores = (place - 100 * (place % 3 == 0)).double().expand(view.hidden.shape)
        return Choice(best(scores, view.hidden, view.count, None))


class Hesitates(Sampler):
    """A sound rule with a memory: the surest position, of those that were less sure a step ago first."""

    def choose(self, view):
        before = view.memory.get("sure", torch.zeros_like(view.confidence))
        view.memory["sure"] = view.confidence
        return Choice(best(view.confidence - before, view.hidden, view.count, view.rng(Stream.TIE)))


GOOD = [Ending, ByPosition, Hesitates]

BAD = {  # what each must fail, and a part of what must be said
    RevealsTwice: (
        "contract",
        "RevealsTwice reveals position 0 of row 100 in step 2, which is not in view.hidden",
    ),
    LeavesHidden: ("contract", "of row 100 hidden after its last step"),
    UnknownToken: ("contract", "UnknownToken writes token 4; V is 4, at position 0 of row 100 in step 1"),
    IgnoresBudget: ("contract", "reveals 9 positions of row 100 in step 1; expected the schedule's 3"),
    OtherInThreads: ("batches", "blank sequences of a 2-gram differ in threads, but not in batches"),
    StepsBeyond: ("contract", "gives step 2 to position 1 of row 100; expected a step from 1 to 1"),
    LoopsLooking: ("contract", "LoopsLooking, at position 0 of row 100 after step 0: after "),
    LoopsHiding: (
        "contract",
        "LoopsHiding has hidden tokens 101 times and seems to loop forever, at position 0",
    ),
    LoopsFree: ("contract", "it seems to loop forever"),
    LoopsReading: ("contract", "it seems to loop for ever"),
    ChangesPrompt: ("prompts", "changed the given token at position"),
    WritesPastTheSession: ("contract", "wrote position 0 of row 100 without session.write"),
    SpoilsTokens: ("contract", "wrote an unknown token at position 0 of row 100 by step 1"),
    ForgetsModelCalls: ("counting", "row 0 counts 0 model calls; its steps need at least 1"),
    CannotDoOne: ("contract", "one token"),
    BatchFlattened: ("batches", "Make each row independent of the others"),
    ByPlaceInBatch: ("batches", "Make each row independent of the others"),
    Unkeyed: ("determinism", "the same seed twice"),
    Seedless: ("determinism", "another seed changes nothing"),
    Rowless: ("determinism", "all rows are equal"),
    Remembers: ("determinism", "the same seed twice"),
    ReadsPadding: ("ragged", "Do not read the padding of a row"),
    SharesMemory: ("batches", "Make each row independent of the others"),
    RemembersOnItself: ("batches", "Make each row independent of the others"),
    WritesBehindTheEnd: ("stopping", "reveals a position that is not hidden"),
    ReusesUniforms: ("rng", "is drawn from the same uniform twice"),
    AsksPosterior: ("counting", "calls denoiser.posterior"),
    OwnCanvas: ("counting", "calls denoiser.engine"),
    OwnReader: ("counting", "calls denoiser.causal"),
    ChoosesAfterDrawing: ("distribution", "not the claimed distribution (order)"),
    FinalArgmax: ("distribution", "not the claimed distribution (order)"),
    SameStepSeen: ("distribution", "not the claimed distribution (order)"),
    Warm: ("distribution", "not the claimed distribution (causal)"),
    Cool: ("distribution", "not the claimed distribution (order)"),
    Hot: ("distribution", "not the claimed distribution (order)"),
    Trimmed: ("distribution", "not the claimed distribution (order)"),
    NotTheLanguage: ("distribution", "not the claimed distribution (language)"),
    Uniform: ("distribution", "not the claimed distribution (the given one)"),
}
