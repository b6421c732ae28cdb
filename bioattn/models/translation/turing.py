"""A neural Turing machine: a controller that reads and writes a memory by moving heads (Graves et al. 2014).

Shape suffixes: B pairs, S source tokens, T steps of the decoder, C channels, H heads (those that read, then the
one that writes), R heads that read, N slots, D channels of a slot, K moves of a head.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.attention.capture import hand_over, substituted
from bioattn.attention.operator import attention_weights
from bioattn.attention.score import CosineScore
from bioattn.attention.site import AttentionSite, Tile
from bioattn.models.translation.family import TranslationModelConfig
from bioattn.models.translation.layers import SLOTS, SOURCE_TOKENS, TARGET_TOKENS, Recurrence, State

MOVES = (-1, 0, 1)
"""How far a head moves in a step, in slots."""
WRITER = (1, 0)
READERS = ((0, 1), (1, -1), (1, 1), (0, 0))
"""First moves of the head that writes and, in turn, of those that read: while the source is read, and behind it.

The first reads in the order of writing, the second in the reverse order. Training may change all of them, but need
not find out of nothing how heads should move, which is where public implementations fail on some seeds."""
FIRST_GATE, FIRST_SHARPNESS, FIRST_MOVE = -3.0, 2.0, 3.0
"""First biases: heads begin sharp, and led by their moves, not by content."""
TINY = 1e-12
"""Keeps weights of a head whose every slot underflows finite."""


class TuringMachine(nn.Module):
    """Reads the source token by token, then writes the target; the same controller and memory do both.

    The memory is a ring of slots that begin with one learned content. Heads start where their first move brings
    them to slot 0.
    """

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__()
        self.config = config
        self.reads, self.width = config.num_heads, config.slot_channels
        moves = [*(READERS[head % len(READERS)] for head in range(self.reads)), WRITER]
        inputs = config.channels + self.reads * self.width
        self.cell = Recurrence(config, inputs, 1) if config.cell else None
        self.layer = None if config.cell else nn.Linear(inputs, config.channels)
        self.address = nn.ModuleDict()
        for phase, steps in enumerate((SOURCE_TOKENS, TARGET_TOKENS)):
            layer = nn.Linear(config.channels, len(moves) * (self.width + 3 + len(MOVES)))
            first_HK = [[FIRST_MOVE * (move == each[phase]) for move in MOVES] for each in moves]
            with torch.no_grad():
                bias_HP = layer.bias.view(len(moves), -1)
                bias_HP[:, self.width : -len(MOVES)] = torch.tensor((0.0, FIRST_GATE, FIRST_SHARPNESS))
                bias_HP[:, -len(MOVES) :] = torch.tensor(first_HK)
            self.address[steps] = layer
        self.change = nn.Linear(config.channels, 2 * self.width)
        self.combine = nn.Linear(inputs, config.channels)
        self.empty_D = nn.Parameter(torch.empty(self.width).uniform_(-1, 1) / self.width**0.5)
        self.start_H = [-of_source for of_source, _ in moves]
        self.sites = {
            (deed, steps): AttentionSite.of_ragged(
                f"translation.{deed}.{steps.partition('_')[0]}", number, steps, SLOTS
            )
            for steps in (SOURCE_TOKENS, TARGET_TOKENS)
            for deed, number in (("read", self.reads), ("write", 1))
        }

    def begin(self, source_BSC: Tensor, known_BS: Tensor) -> State:
        rows = len(source_BSC)
        # The memory grows with the source, so that a long one overwrites nothing.
        slots_B11 = (2 * known_BS.sum(-1)).clamp(min=self.config.slots)[:, None, None]
        place_N = torch.arange(int(slots_B11.max()), device=source_BSC.device)
        moves_K1 = place_N.new_tensor(MOVES)[:, None]
        known_B1N = place_N < slots_B11
        state = State(known_BS)
        tensors = state.tensors
        tensors["behind"] = torch.where(known_B1N, (place_N - moves_K1) % slots_B11, place_N).flatten(1)
        if not bool(known_B1N.all()):
            tensors["known_slots"] = known_B1N
        tensors["memory"] = self.empty_D.expand(rows, len(place_N), -1)
        start_BH1 = place_N.new_tensor(self.start_H)[None, :, None] % slots_B11
        tensors["weights"] = (place_N == start_BH1).to(source_BSC.dtype)
        tensors["read"] = source_BSC.new_zeros(rows, self.reads * self.width)
        if self.cell is not None:
            tensors["cell"] = source_BSC.new_zeros(rows, 1, self.cell.width)
        whole = bool(known_BS.all())
        for number in range(source_BSC.shape[1]):
            before = dict(tensors)
            self._step(source_BSC[:, number], state, SOURCE_TOKENS, number, source_BSC.shape[1])
            if not whole:
                for name, old in before.items():
                    known = known_BS[:, number].view(-1, *[1] * (old.dim() - 1))
                    tensors[name] = torch.where(known, tensors[name], old)
        return state

    def advance(self, prefix_BTC: Tensor, state: State) -> Tensor:
        """What is known (B, T, C) of the tokens behind each of the next tokens of the prefix."""
        steps = prefix_BTC.shape[1]
        hidden = [
            self._step(prefix_BTC[:, number], state, TARGET_TOKENS, number, steps) for number in range(steps)
        ]
        state.step += steps
        return F.gelu(self.combine(torch.stack(hidden, 1)))

    def _step(self, inputs_BC: Tensor, state: State, steps: str, number: int, total: int) -> Tensor:
        """What the controller knows and reads (B, C + R D) in a step; the state goes on."""
        tensors = state.tensors
        inputs_BC = torch.cat([inputs_BC, tensors["read"]], -1)
        if self.cell is not None:
            hidden_B1C, tensors["cell"] = self.cell(inputs_BC[:, None], tensors["cell"])
            hidden_BC = hidden_B1C[:, 0]
        else:
            assert self.layer is not None
            hidden_BC = torch.tanh(self.layer(inputs_BC))
        memory_BND, tile = tensors["memory"], Tile("query", number, total)
        weights_BHN = self._addressed(self.address[steps](hidden_BC), tensors)
        heard = []
        for deed, own in zip(("read", "write"), weights_BHN.split([self.reads, 1], 1), strict=True):
            site = self.sites[deed, steps]
            other = substituted(site, own[:, :, None], tile)
            heard.append(own if other is None else other[:, :, 0])
            hand_over(site, heard[-1][:, :, None], memory_BND[:, None], tile)
        read_BRN, write_B1N = heard
        tensors["weights"] = torch.cat(heard, 1)
        erase_BD, add_BD = self.change(hidden_BC).chunk(2, -1)
        write_BN1 = write_B1N.transpose(1, 2)
        kept_BND = 1 - write_BN1 * erase_BD.sigmoid()[:, None]
        tensors["memory"] = memory_BND * kept_BND + write_BN1 * add_BD[:, None]
        tensors["read"] = (read_BRN @ tensors["memory"]).flatten(1)
        return torch.cat([hidden_BC, tensors["read"]], -1)

    def _addressed(self, flat_BP: Tensor, tensors: dict[str, Tensor]) -> Tensor:
        """Weights of the slots (B, H, N): by content, gated with those before, moved, sharpened."""
        memory_BND, before_BHN = tensors["memory"], tensors["weights"]
        parts = flat_BP.view(*before_BHN.shape[:2], -1)
        key_BHD, strength, gate, sharpness, moves_BHK = parts.split([self.width, 1, 1, 1, len(MOVES)], -1)
        content_BHN = attention_weights(
            key_BHD, memory_BND, score=CosineScore(F.softplus(strength)), mask=tensors.get("known_slots")
        )
        gated_BHN = torch.lerp(before_BHN, content_BHN, gate.sigmoid())
        behind_BHKN = gated_BHN.gather(-1, tensors["behind"][:, None].expand(-1, gated_BHN.shape[1], -1))
        behind_BHKN = behind_BHKN.unflatten(-1, (len(MOVES), -1))
        moved_BHN = (behind_BHKN * moves_BHK.softmax(-1)[..., None]).sum(-2)
        sharp_BHN: Tensor = (moved_BHN + TINY) ** (1 + F.softplus(sharpness))
        return sharp_BHN / sharp_BHN.sum(-1, keepdim=True)
