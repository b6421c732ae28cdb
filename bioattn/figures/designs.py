"""Designs by what they do and how real they look."""

from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from bioattn.figures import style
from bioattn.interpret.designs.record import DesignsCheck


@style.styled
def draw_designs(check: DesignsCheck, width: float) -> Figure:
    """Draw the gain of designs, real promoters and simple designers against their distance from real promoters,
    and how both change with guidance; `width` in millimetres."""
    figure = style.new_figure(width, 0.7 * width)
    axis = figure.subplots()
    designs, real, *others = check.rows
    if check.guidance:
        axis.plot(
            [each.distance_6 for each in check.guidance],
            [each.effect for each in check.guidance],
            color=style.BLUE,
            marker=".",
            label="designs by guidance",
        )
        for each in check.guidance:
            axis.annotate(
                f"{each.guidance:g}",
                (each.distance_6, each.effect),
                fontsize=style.SMALL_FONT,
                color=style.BLUE,
            )
    axis.plot(designs.distance_6, designs.effect, "o", color=style.BLUE, label=designs.name)
    axis.plot(real.distance_6, real.effect, "s", color=style.BLACK, label=real.name)
    for number, each in enumerate(others):
        axis.plot(each.distance_6, each.effect, "^", color=style.colour_of(number + 1), label=each.name)
    by_model = [(each.distance_6, each.effect_model) for each in check.rows if each.effect_model is not None]
    if by_model:
        axis.plot(*zip(*by_model, strict=True), "x", color=style.GREY, label="by the promoter model")
    axis.axvline(1, color=style.LIGHT_GREY, linewidth=0.5, zorder=0)
    axis.set_xscale("log")
    for ticks in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
        ticks(StrMethodFormatter("{x:g}"))
    axis.set_xlabel("6-mer distance from real promoters, in distances of held-out ones")
    axis.set_ylabel("gain by the held-out oracle, sd of real promoters")
    axis.legend(fontsize=style.SMALL_FONT)
    return figure
