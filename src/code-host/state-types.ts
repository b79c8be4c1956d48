/**
 * What the states of an artefact are as JSON, as its compiler has described them: data for whoever makes types of them, in TypeScript or SQL. Each
 * schema is JSON Schema (2020-12), with references into `$defs`. `x-dotnet` has the type in C#, `x-names` the names of an enumeration that is
 * written as numbers.
 */
export interface StateTypes {
  /** By the class of the reducer or projection. A state is null besides where the code gave none. */
  readonly states: Readonly<Record<string, StateSchema>>;
  readonly $defs: Readonly<Record<string, StateSchema>>;
}

export type StateSchema = Readonly<Record<string, unknown>>;
