"""unmask eval lm-eval."""

from __future__ import annotations


def command(*words: str) -> None:
    """Run lm-eval, EleutherAI's harness, with open models and samplers of unmask.

    Examples:
        unmask eval lm-eval --model unmask --tasks gsm8k --limit 20 \\
            --model_args model=HuggingFaceTB/SmolLM2-135M-Instruct,record=answers.jsonl
        unmask eval lm-eval --model unmask --tasks gsm8k --apply_chat_template \\
            --model_args "model=llada-8b-instruct,sampler=llada(block_length=8)"
        unmask eval lm-eval --model unmask --tasks piqa \\
            --model_args model=llada-8b-base,likelihood=bound,draws=128
        unmask eval lm-eval run --help

    All options are lm-eval's own (pip install 'unmask[lm-eval]'). This command adds
    the model `unmask`, also to releases without entry points. Its arguments, which
    docs/evaluate.md explains:

        model, card, device, dtype, cache   as in unmask generate
        sampler, schedule, steps, block_length, temperature, top_p, top_k,
        guidance, seed                                as in unmask generate
        max_gen_toks   tokens of an answer, if the task sets none (default: 256)
        likelihood     for a masked model: chain, exact from left to right; bound,
                       with a standard error; auto, chain up to `draws` tokens
        draws          random masks of a bound (default: 128)
        greedy         read or decode: decode runs the sampler for the greedy text
        record         a file with one line per request: errors and model calls
    """
    import sys

    from unmask.core.errors import UnmaskError
    from unmask.core.extras import needed

    with needed("lm-eval", "lm-eval"):
        from lm_eval.__main__ import cli_evaluate
    from unmask.harness.lm_eval import register

    register()
    before = sys.argv
    sys.argv = ["lm-eval", *words]
    try:
        cli_evaluate()
    except (UnmaskError, OSError, MemoryError):
        raise
    except Exception as error:  # any error of the harness or its tasks
        problem = f"lm-eval failed with {type(error).__name__}: {error}"
        raise UnmaskError(f"{problem}. Add --debug for the traceback") from error
    finally:
        sys.argv = before
