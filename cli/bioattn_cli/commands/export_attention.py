"""`bioattn export attention`: the attention of a model of any family that can write it."""

from bioattn.models.attention_settings import ExportAttention
from bioattn.models.family import ability, family_of
from bioattn_cli.command import Record
from bioattn_cli.commands.family_runs import CommandSurroundings, record_of
from bioattn_cli.family_commands import settings_command
from bioattn_cli.reporting import Reporter


def export_attention(reporter: Reporter, settings: ExportAttention) -> Record:
    """Ask the family of the model."""
    write = ability(family_of(settings.model), "export_attention")
    return record_of(write(settings, CommandSurroundings(reporter)))


settings_command("export attention", ExportAttention, export_attention)
