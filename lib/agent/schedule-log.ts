/** Where the agent tells what it does; pino's loggers are such. */
export type AgentLog = Readonly<Record<"info" | "warn" | "error", (fields: object, text: string) => void>>;
