"""The life of a worker process: it makes its steps in order, as far as it may, and ends with its pipeline or with its consumer.

Two threads: one makes steps, and a watchdog ends the process in the midst of a transform, too. That needs the interpreter, so native
code that holds it is ended by the consumer (`Processes.join`).
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import threading
from typing import NamedTuple

from loaderx.arguments import add_note
from loaderx.dataloader.plan import Made, Plan
from loaderx.dataloader.processes import memory
from loaderx.dataloader.processes.channel import Control, Greeting, Message, first_step_of, send
from loaderx.dataloader.processes.failures import portable
from loaderx.dataloader.processes.packing import Bundle
from loaderx.dataloader.processes.slots import Slots
from loaderx.dataloader.processes.starting import settle
from loaderx.dataloader.processes.watchdog import watch


class Task(NamedTuple):
    """What a worker is told at first."""

    worker: int
    workers: int
    first_step: int
    consumer: int
    leash: int
    control: Control
    plan: bytes


def work(channel: socket.socket) -> None:
    """The whole of it."""
    settle()
    task = greeted(channel)
    if task is None:
        return
    threading.Thread(target=watch, args=(task.consumer, task.leash), name="loaderx-watchdog", daemon=True).start()
    task.control.begin()
    plan = opened(task)
    slots = Slots(task.control.slots)
    step = first_step_of(task.worker, task.workers, task.first_step)
    while may_make(step, task, channel):
        try:
            give(result_of(plan, step), step, slots, channel)
        except (BrokenPipeError, ConnectionResetError):
            return
        step += task.workers


def greeted(channel: socket.socket) -> Task | None:
    """The task; None if the consumer ended before it gave one."""
    greeting, descriptors, _, _ = socket.recv_fds(channel, Greeting.size, 3)
    if len(descriptors) != 3:
        return None
    worker, workers, first_step, slots, size, consumer = Greeting.unpack(greeting)
    leash, control, plan = descriptors
    with memory.mapped(plan, size) as mapped:
        pickled = mapped[:]
    task = Task(worker, workers, first_step, consumer, leash, Control(control, slots), pickled)
    os.close(control)
    os.close(plan)
    return task


def opened(task: Task) -> Plan | BaseException:
    """The plan with its streams opened, or why that can't be: then it is what comes of every step."""
    try:
        plan: Plan = pickle.loads(task.plan)
    except BaseException as error:
        add_note(
            error,
            "while a worker process opened the streams and looked up the transform, which must be in a module's file",
        )
        return error
    return plan


def may_make(step: int, task: Task, channel: socket.socket) -> bool:
    """Wait until the step may be made. False at the end of the pipeline."""
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    poller.register(task.leash, select.POLLIN)
    timeout: float | None = 0
    while True:
        ready = dict(poller.poll(timeout))
        if task.leash in ready:
            return False
        if channel.fileno() in ready and not channel.recv(4096):
            return False
        # The limit is read after the wake-ups were taken, so none is lost.
        if step < task.control.limit:
            return True
        timeout = None


def result_of(plan: Plan | BaseException, step: int) -> Made:
    """What comes of a step. Where there is no plan that is an error of each, and of none."""
    return plan.make(step) if isinstance(plan, Plan) else Made(None, plan, of_step=False)


def give(made: Made, step: int, slots: Slots, channel: socket.socket) -> None:
    """Hand over what came of a step."""
    result = packed(made, step)
    try:
        taken = slots.take(result.size)
    except OSError as error:  # no memory, no descriptor: the error is small and finds room where batches did
        add_note(error, f"at step {step} of the DataLoader: no shared memory for {result.size} bytes")
        result = Bundle(portable(error, of_step=False))
        taken = slots.take(result.size)
    with taken as slot:
        result.write(slot.memory)
        capacity = 0 if slot.descriptor is None else len(slot.memory)
        send(channel, Message(step, slot.number, capacity, result.tail, result.length), slot.descriptor)


def packed(made: Made, step: int) -> Bundle:
    """The result, ready to be written: as a Made or a Failure."""
    if made.error is not None:
        return Bundle(portable(made.error, made.fails_always))
    try:
        return Bundle(tuple(made))
    except Exception as error:
        add_note(
            error, f"at step {step} of the DataLoader: what transform returned can't be sent from its worker process"
        )
        return Bundle(portable(error, Made(None, error).fails_always))
