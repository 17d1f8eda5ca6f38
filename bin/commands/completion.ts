import type { Argument, CommandUnknownOpts, Option } from "@commander-js/extra-typings";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** What can follow an option or be an argument. */
type Value =
  | { readonly kind: "none" | "file" | "text" }
  | { readonly kind: "words"; readonly words: readonly string[] };
type KnownOption = { readonly flags: readonly string[]; readonly about: string; readonly value: Value };
type Known = {
  readonly name: string;
  readonly about: string;
  readonly options: readonly KnownOption[];
  readonly argument: Value;
};

/** The script that lets a shell complete commands, options and their values; it starts nothing while it does. */
export function completion(shell: Shell, commands: readonly CommandUnknownOpts[]): string {
  const known = commands.map(knownOf);
  switch (shell) {
    case "bash":
      return bash(known);
    case "zsh":
      return zsh(known);
    case "fish":
      return fish(known);
  }
}

function knownOf(command: CommandUnknownOpts): Known {
  const help: KnownOption = { flags: ["-h", "--help"], about: "show its help", value: { kind: "none" } };
  const [argument] = command.registeredArguments;
  return {
    name: command.name(),
    about: shortened(command.description()),
    options: [...command.options.map(optionOf), help],
    argument: argument === undefined ? { kind: "none" } : valueOf(argument, argument.name()),
  };
}

function optionOf(option: Option): KnownOption {
  const takes = /[<[]([^>\]]+)[>\]]/.exec(option.flags)?.[1];
  return {
    flags: [option.short, option.long].filter((flag) => flag !== undefined && flag !== null),
    about: shortened(option.description),
    value: takes === undefined ? { kind: "none" } : valueOf(option, takes),
  };
}

function valueOf({ argChoices }: Pick<Option | Argument, "argChoices">, name: string): Value {
  if (argChoices !== undefined) return { kind: "words", words: argChoices };
  return { kind: /file|place/.test(name) ? "file" : "text" };
}

/** What comes before the first detail, without what a shell's syntax would read. */
const shortened = (text: string): string => (text.split(/[:;(]/)[0] ?? "").replaceAll(/['"`$\\[\]]/g, "").trim();

function bash(known: readonly Known[]): string {
  const cases = known.map(({ name, options, argument }) => {
    const values = options
      .filter(({ value }) => value.kind !== "none")
      .map(({ flags, value }) => `        ${flags.join("|")}) ${bashValue(value)}; return ;;`);
    const previous = values.length === 0 ? "" : `      case $previous in\n${values.join("\n")}\n      esac\n`;
    const flags = options.flatMap((option) => option.flags).join(" ");
    return `    ${name})\n${previous}      [[ $word == -* ]] && { _gridmeter_words '${flags}'; return; }\n      ${bashValue(argument)} ;;`;
  });
  return `# Completion of gridmeter for bash, made by \`gridmeter completion bash\`.
_gridmeter_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
}
_gridmeter_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
_gridmeter() {
  local word=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _gridmeter_words '${known.map(({ name }) => name).join(" ")} help'
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join("\n")}
    help) ((COMP_CWORD == 2)) && _gridmeter_words '${known.map(({ name }) => name).join(" ")}' ;;
  esac
}
complete -F _gridmeter gridmeter
`;
}

function bashValue(value: Value): string {
  switch (value.kind) {
    case "none":
    case "text":
      return ":";
    case "file":
      return "_gridmeter_files";
    case "words":
      return `_gridmeter_words '${value.words.join(" ")}'`;
  }
}

function zsh(known: readonly Known[]): string {
  const commands = known.map(({ name, about }) => `    '${name}:${about}'`);
  const cases = known.map(({ name, options, argument }) => {
    const specs = options.flatMap(({ flags, about, value }) =>
      flags.map(
        (flag) => `        '${flags.length > 1 ? `(${flags.join(" ")})` : ""}${flag}[${about}]${zshValue(value)}'`,
      ),
    );
    const rest = argument.kind === "none" ? [] : [`        '*${zshValue(argument)}'`];
    return `    ${name})\n      _arguments \\\n${[...specs, ...rest].join(" \\\n")}\n      ;;`;
  });
  return `#compdef gridmeter
# Completion of gridmeter for zsh, made by \`gridmeter completion zsh\`.
_gridmeter() {
  local context state state_descr line
  local -a commands
  typeset -A opt_args
  commands=(
${commands.join("\n")}
    'help:show the help of a command'
  )
  _arguments -C '1:command:->command' '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $line[1] in
${cases.join("\n")}
    help) _describe command commands ;;
    esac
    ;;
  esac
}
# Read from a file of $fpath it completes at once; sourced, it is only made known.
if [[ $funcstack[1] == _gridmeter ]]; then _gridmeter "$@"; else compdef _gridmeter gridmeter; fi
`;
}

function zshValue(value: Value): string {
  switch (value.kind) {
    case "none":
      return "";
    case "text":
      return ":value:";
    case "file":
      return ":file:_files";
    case "words":
      return `:value:(${value.words.join(" ")})`;
  }
}

function fish(known: readonly Known[]): string {
  const names = known.map(({ name }) => name).join(" ");
  const first = `not __fish_seen_subcommand_from ${names} help`;
  const commands = known.map(({ name, about }) => `complete -c gridmeter -n '${first}' -a ${name} -d '${about}'`);
  const options = known.flatMap(({ name, options: own, argument }) => {
    const when = `complete -c gridmeter -n '__fish_seen_subcommand_from ${name}'`;
    const lines = own.map(({ flags, about, value }) => {
      const written = flags.map((flag) => (flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`));
      return `${when} ${written.join(" ")} -d '${about}'${fishValue(value)}`;
    });
    return argument.kind === "none" || argument.kind === "text"
      ? lines
      : [...lines, `${when}${fishArgument(argument)}`];
  });
  return `# Completion of gridmeter for fish, made by \`gridmeter completion fish\`.
complete -c gridmeter -f
${[...commands, `complete -c gridmeter -n '${first}' -a help -d 'show the help of a command'`].join("\n")}
complete -c gridmeter -n '__fish_seen_subcommand_from help' -a '${names}'
${options.join("\n")}
`;
}

function fishValue(value: Value): string {
  switch (value.kind) {
    case "none":
      return "";
    case "text":
      return " -x";
    case "file":
      return " -r -F";
    case "words":
      return ` -x -a '${value.words.join(" ")}'`;
  }
}

const fishArgument = (value: Value): string => (value.kind === "words" ? ` -a '${value.words.join(" ")}'` : " -F");
