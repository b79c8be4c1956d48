/** Where a ClickHouse is, and as whom. */
export interface ClickHouseEndpoint {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}
