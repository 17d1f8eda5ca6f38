export async function manual(_f: readonly string[], _o: unknown): Promise<number> { return 2; }
