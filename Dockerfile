# One image for every role. Built with the .NET SDK; it runs with the runtime alone, as the compiler carries its own copy of Roslyn.
FROM node:20.19-bookworm-slim AS node

FROM mcr.microsoft.com/dotnet/sdk:10.0 AS build
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules/npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
WORKDIR /opt/statefold
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY scripts ./scripts
COPY dotnet ./dotnet
COPY packages ./packages
COPY src ./src
COPY samples ./samples
COPY templates ./templates
COPY console ./console
RUN npm run build && npm prune --omit=dev --no-audit --no-fund

FROM mcr.microsoft.com/dotnet/runtime:10.0
COPY --from=node /usr/local/bin/node /usr/local/bin/node
RUN useradd --system --uid 10001 --user-group --create-home statefold \
 && install --directory --owner=statefold --group=statefold --mode=0700 /data
WORKDIR /opt/statefold
# The lock file marks the folder that schemas and C# hosts are looked for in.
COPY package.json package-lock.json LICENSE ./
COPY schemas ./schemas
COPY templates ./templates
# The command line: `docker exec <container> statefold …`.
COPY scripts/statefold.mjs scripts/setup.mjs ./scripts/
RUN ln -s /opt/statefold/scripts/statefold.mjs /usr/local/bin/statefold
COPY --from=build /opt/statefold/node_modules ./node_modules
COPY --from=build /opt/statefold/dist ./dist
USER statefold
ENV HOST=0.0.0.0 PORT=8080 STATEFOLD_DATA_DIR=/data NODE_ENV=production
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + '/health/ready').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
# As `npm start` does: docs/reference/limits.md has what it gives, and what it takes.
ENTRYPOINT ["node", "--max-semi-space-size=8", "--v8-pool-size=1", "dist/program/main.js", "serve"]
