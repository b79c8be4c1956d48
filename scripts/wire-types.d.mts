/** Where the types are. */
export const WIRE: string;
/** The text of wire.ts, of the OpenAPI document of the service. */
export function wireTypes(document: object): Promise<string>;
