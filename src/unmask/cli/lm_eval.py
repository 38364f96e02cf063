"""unmask lm-eval."""

from __future__ import annotations


def command(*words: str) -> None:
    """Run lm-eval, EleutherAI's harness, with open models and samplers of unmask.

    Examples:
        unmask lm-eval --model unmask --tasks gsm8k --limit 20 \\
            --model_args model=smollm2-135m-instruct,record=answers.jsonl
        unmask lm-eval --model unmask --tasks gsm8k --apply_chat_template \\
            --model_args "model=llada-8b-instruct,sampler=llada(block_length=8)"
        unmask lm-eval --model unmask --tasks piqa \\
            --model_args model=llada-8b-base,likelihood=bound,draws=128
        unmask lm-eval run --help

    All words are lm-eval's own (pip install 'unmask[lm-eval]'); what this adds is
    its model `unmask`, for releases that look for no entry points. The arguments
    of that model, docs/serve.md says more:

        model, card, device, dtype, quantize, cache   as those of unmask generate
        sampler, schedule, steps, block_length, temperature, top_p, top_k,
        guidance, seed                                how it writes
        max_gen_toks   tokens of an answer, where a task does not say; 256
        likelihood     of a masked model: chain, left to right, exactly; bound,
                       with a standard error; auto, chain up to `draws` tokens
        draws          sets of places of a bound; 128
        greedy         read, or decode: whether the sampler writes it
        record         a file: a line a request, with errors and evaluations
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
    except Exception as error:  # whatever a harness and its tasks come to
        raise UnmaskError(f"lm-eval fails with {type(error).__name__}: {error}; --debug shows more") from error
    finally:
        sys.argv = before
