# One image for nameserver, brokers and gRPC endpoint, with RocketMQ's names and paths in it: docs/containers.md.

FROM python:3.11-slim AS build
WORKDIR /src
# Dependencies first: they change less often than the code.
RUN python3 -m venv --without-pip /opt/staticfire
COPY pyproject.toml constraints.txt ./
RUN python3 -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
      print(*p["dependencies"], *p["optional-dependencies"]["grpc"], sep="\n")' > requirements.txt \
 && python3 -m pip --python /opt/staticfire/bin/python install --no-cache-dir --disable-pip-version-check \
      --constraint constraints.txt --requirement requirements.txt
COPY . .
RUN PIP_CONSTRAINT=constraints.txt python3 -m pip --python /opt/staticfire/bin/python install --no-cache-dir \
      --disable-pip-version-check --no-deps . \
 && ln -s /opt/staticfire/lib/python3.*/site-packages/staticfire/launch/container_health.py /opt/staticfire/health.py

FROM python:3.11-slim
# The user and the folders of RocketMQ's image, so that volumes of people's compose files fit. A named volume takes over
# the owner of the folder that it is mounted on.
RUN groupadd --gid 3000 rocketmq \
 && useradd --uid 3000 --gid rocketmq --create-home --home-dir /home/rocketmq rocketmq \
 && cd /home/rocketmq && mkdir -p store logs namesrv rocketmq-5.3.3/bin rocketmq-5.3.3/conf \
 && chown -R rocketmq:rocketmq /home/rocketmq \
 && rm -rf /usr/local/lib/python3.*/site-packages/pip* /usr/local/lib/python3.*/site-packages/setuptools* \
      /usr/local/lib/python3.*/site-packages/wheel* /usr/local/bin/pip*
COPY --from=build /opt/staticfire /opt/staticfire
COPY containers/bin /home/rocketmq/rocketmq-5.3.3/bin
COPY containers/conf /home/rocketmq/rocketmq-5.3.3/conf
# STATICFIRE_EXTERNAL_HOST: what clients are told that come through published ports; brokerIP1 wins. HOME: also for
# containers that run as another user. STATICFIRE_LISTEN: `staticfire up`, a whole cluster in one container, is published.
ENV PATH=/home/rocketmq/rocketmq-5.3.3/bin:/opt/staticfire/bin:$PATH \
    HOME=/home/rocketmq \
    ROCKETMQ_HOME=/home/rocketmq/rocketmq-5.3.3 \
    STATICFIRE_EXTERNAL_HOST=127.0.0.1 \
    STATICFIRE_LISTEN=0.0.0.0
WORKDIR /home/rocketmq/rocketmq-5.3.3/bin
USER rocketmq
EXPOSE 8081 9876 10909 10911
HEALTHCHECK --interval=3s --timeout=5s --start-period=30s --retries=3 CMD ["staticfire-health"]
CMD ["staticfire", "up"]
